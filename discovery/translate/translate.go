// Package translate turns a mesh into Envoy's messages for one proxy: clusters, endpoints, listeners and routes, named
// and shaped as Istio names and shapes them, with only those filters that a stock Envoy has.
//
// Everything here is a pure function: no I/O, no clocks, no locks, and the same input gives the same bytes. Each
// message is made from its own inputs alone, so that one cluster, load assignment or virtual host can be remade
// without the rest. Messages share parts that never change; nobody may write to what is returned.
//
// Sidecars get outbound and inbound resources. Gateways (router~…) get what the Gateways that select them expose.
package translate

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
)

// Listeners returns every listener of a proxy: a router's, or a sidecar's for both directions.
func Listeners(m *mesh.Mesh, p *mesh.Proxy) []*listenerv3.Listener {
	s := ViewOf(m, p)
	return append(s.OutboundListeners(), s.InboundListeners()...)
}

// Endpoints returns the load assignments of all clusters of a proxy that ask for one.
func Endpoints(m *mesh.Mesh, p *mesh.Proxy) []*endpointv3.ClusterLoadAssignment {
	s := ViewOf(m, p)
	var out []*endpointv3.ClusterLoadAssignment
	for _, b := range upstream.Backends(s.View) {
		out = append(out, s.Endpoints(b)...)
	}
	return out
}

// Clusters returns every cluster of a proxy: one for each port of each service and subset that it may
// see, the fixed ones, and those of the ports that its own workload serves.
func Clusters(m *mesh.Mesh, p *mesh.Proxy) []*clusterv3.Cluster {
	s := ViewOf(m, p)
	var out []*clusterv3.Cluster
	for _, b := range upstream.Backends(s.View) {
		out = append(out, s.Clusters(b)...)
	}
	return append(out, s.OwnClusters()...)
}
