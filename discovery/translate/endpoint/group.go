package endpoint

import (
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// group is what serves an upstream in one locality, or those of it that are equally preferred.
type group struct {
	locality string
	members  []member
	weight   uint32 // of the group among the others; 0 for a group without members
	priority uint32
}

// groupsOf puts what serves an upstream into groups, in the order of their localities.
func groupsOf(v view.View, u upstream.Upstream) []group {
	groups := map[string]*group{}
	for _, e := range u.Endpoints() {
		if !asksFor(v, e) || e.Address == "" && !v.Mesh.HasNetworkGateways() {
			continue
		}
		g := groups[e.Locality]
		if g == nil {
			g = &group{locality: e.Locality}
			groups[e.Locality] = g
		}
		g.members = append(g.members, memberOf(v, u, e))
	}
	out := make([]group, 0, len(groups))
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		groups[name].weigh()
		out = append(out, *groups[name])
	}
	return out
}

// weigh gives the group the weight of its members.
func (g *group) weigh() {
	g.weight = 0
	for _, m := range g.members {
		g.weight = saturated(g.weight, m.weight)
	}
}

// endpoints is the group as Envoy takes it.
func (g group) endpoints() *endpointv3.LocalityLbEndpoints {
	out := &endpointv3.LocalityLbEndpoints{Locality: locality(g.locality), LoadBalancingWeight: message.Positive(g.weight), Priority: g.priority}
	for _, m := range g.members {
		out.LbEndpoints = append(out.LbEndpoints, m.endpoint())
	}
	return out
}

// locality reads region/zone/subzone; later parts may be missing.
func locality(s string) *corev3.Locality {
	parts := append(strings.SplitN(s, "/", 3), "", "")
	return &corev3.Locality{Region: parts[0], Zone: parts[1], SubZone: parts[2]}
}

// saturated adds weights. The sum stops at the largest number.
func saturated(a, b uint32) uint32 {
	if a+b < a {
		return ^uint32(0)
	}
	return a + b
}
