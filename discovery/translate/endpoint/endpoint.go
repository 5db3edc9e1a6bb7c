// Package endpoint lists the endpoints of a proxy's clusters: who serves an upstream, where, and
// whom the proxy prefers.
package endpoint

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Assignments returns the load assignment of each cluster of a backend that asks for one. An empty
// one is there, too: Envoy waits for it.
func Assignments(v view.View, b upstream.Backend) []*endpointv3.ClusterLoadAssignment {
	if upstream.IsDynamic(b.Service) {
		return nil
	}
	var out []*endpointv3.ClusterLoadAssignment
	for _, u := range upstream.All(v, b) {
		if upstream.DiscoveryType(v, u) == clusterv3.Cluster_EDS {
			out = append(out, &endpointv3.ClusterLoadAssignment{ClusterName: u.Name(), Endpoints: Of(v, u)})
		}
	}
	return out
}

// Of groups what serves an upstream by locality, in the order of their names, and by preference.
func Of(v view.View, u upstream.Upstream) []*endpointv3.LocalityLbEndpoints {
	groups := throughGateways(v, groupsOf(v, u), u)
	if u.PassesTLS {
		groups = takingMutualTLS(v, groups)
	}
	groups = prefer(v, groups, u)
	out := make([]*endpointv3.LocalityLbEndpoints, len(groups))
	for i, g := range groups {
		out[i] = g.endpoints()
	}
	return out
}
