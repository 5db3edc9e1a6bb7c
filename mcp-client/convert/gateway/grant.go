// Package gateway writes what a conversion comes to: Gateways, routes and what belongs to them.
package gateway

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// The API versions of what is written.
const (
	version      = "gateway.networking.k8s.io/v1"
	istioVersion = "networking.istio.io/v1"
)

// Set is what a conversion has written so far.
type Set struct {
	*report.Report

	written []written
	grants  map[grant]bool
}

// NewSet returns a set that tells to a report.
func NewSet(r *report.Report) *Set { return &Set{Report: r, grants: map[grant]bool{}} }

type written struct {
	object object
	from   report.Place
}

type object struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       any      `json:"spec"`
}

type metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// ofIstio are the kinds that are not of the Gateway API.
var ofIstio = []string{"ServiceEntry", "DestinationRule"}

func versionOf(kind string) string {
	if slices.Contains(ofIstio, kind) {
		return istioVersion
	}
	return version
}

// Add writes a resource. A name that is taken gets a number.
func (s *Set) Add(kind, namespace, name string, spec any, from report.Place) {
	wanted := name
	for n := 2; s.has(kind, namespace, name); n++ {
		name = fmt.Sprintf("%s-%d", wanted, n)
	}
	s.written = append(s.written, written{object{versionOf(kind), kind, metadata{name, namespace}, spec}, from})
}

func (s *Set) has(kind, namespace, name string) bool {
	return slices.ContainsFunc(s.written, func(w written) bool {
		return w.object.Kind == kind && w.object.Metadata == metadata{name, namespace}
	})
}

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

// Documents are the resources, checked as any others are. What is not valid is told of as lost.
func (s *Set) Documents() ([]*kinds.Document, error) {
	s.addGrants()
	var out []*kinds.Document
	for _, w := range s.written {
		text, err := json.Marshal(w.object)
		if err != nil {
			return nil, fmt.Errorf("write %s %s: %w", w.object.Kind, w.object.Metadata.Name, err)
		}
		documents, err := kinds.Parse("", text)
		if wrong, is := errors.AsType[kinds.Errors](err); is {
			s.refuse(w, wrong)
			continue
		} else if err != nil {
			return nil, err
		}
		out = append(out, documents...)
	}
	slices.SortStableFunc(out, func(a, b *kinds.Document) int { return rank(a) - rank(b) })
	return out, nil
}

func (s *Set) addGrants() {
	byName := func(a, b grant) int {
		return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.from, b.from), cmp.Compare(a.fromKind, b.fromKind), cmp.Compare(a.toKind, b.toKind))
	}
	for _, g := range slices.SortedFunc(maps.Keys(s.grants), byName) {
		s.Add("ReferenceGrant", g.to, Name(g.fromKind+"s-of-"+g.from+"-to-"+g.toKind+"s"), grantSpec{
			From: []grantFrom{{"gateway.networking.k8s.io", g.fromKind, g.from}}, To: []grantTo{{"", g.toKind}},
		}, report.Place{})
	}
	clear(s.grants)
}

// refuse tells that a resource cannot be written.
func (s *Set) refuse(w written, wrong kinds.Errors) {
	for _, v := range wrong {
		s.Lose(w.from, fmt.Sprintf("the %s %s/%s that it would become is not valid, and is left out: %s: %s", w.object.Kind, w.object.Metadata.Namespace,
			w.object.Metadata.Name, v.Path, v.Reason), "write it by hand")
	}
}

// inOrder lists kinds as people read them: what is called, who listens, what leads there.
var inOrder = []string{"ServiceEntry", "DestinationRule", "BackendTLSPolicy", "Gateway", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "ReferenceGrant"}

func rank(d *kinds.Document) int { return slices.Index(inOrder, d.Resource.Kind.Name) }

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// Name makes a name of a resource, or of a part of one, from a text.
func Name(text string) string {
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(text), "-"), "-")
	if len(name) > 60 {
		name = strings.Trim(name[:60], "-")
	}
	if name == "" {
		return "any"
	}
	return name
}

// AddOnce writes a resource, if there is none of this name yet.
func (s *Set) AddOnce(kind, namespace, name string, spec any, from report.Place) {
	if !s.has(kind, namespace, name) {
		s.Add(kind, namespace, name, spec, from)
	}
}
