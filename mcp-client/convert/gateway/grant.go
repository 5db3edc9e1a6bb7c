// Package gateway writes what a conversion to the Gateway API comes to: Gateways, routes and what
// belongs to them.
package gateway

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// Set is what a conversion has written so far, and what other namespaces have to grant for it.
type Set struct {
	*result.Set

	grants map[grant]bool
}

// NewSet returns a set that writes to another.
func NewSet(to *result.Set) *Set { return &Set{Set: to, grants: map[grant]bool{}} }

// grant is what a ReferenceGrant allows.
type grant struct{ to, toKind, from, fromKind string }

// allow remembers that a resource names one of another namespace, which has to allow it.
func (s *Set) allow(g grant) {
	if g.to != "" && g.to != g.from {
		s.grants[g] = true
	}
}

// AllowSecret remembers that a Gateway names a secret of another namespace.
func (s *Set) AllowSecret(gateway, secret string) {
	s.allow(grant{secret, "Secret", gateway, "Gateway"})
}

type grantSpec struct {
	From []grantFrom `json:"from"`
	To   []grantTo   `json:"to"`
}

type grantFrom struct {
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
}

type grantTo struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
}

// AddGrants writes the ReferenceGrants of all that was written before.
func (s *Set) AddGrants() {
	byName := func(a, b grant) int {
		return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.from, b.from), cmp.Compare(a.fromKind, b.fromKind), cmp.Compare(a.toKind, b.toKind))
	}
	for _, g := range slices.SortedFunc(maps.Keys(s.grants), byName) {
		s.Add("ReferenceGrant", g.to, result.Name(g.fromKind+"s-of-"+g.from+"-to-"+g.toKind+"s"), grantSpec{
			From: []grantFrom{{"gateway.networking.k8s.io", g.fromKind, g.from}}, To: []grantTo{{"", g.toKind}},
		}, report.Place{})
	}
	clear(s.grants)
}
