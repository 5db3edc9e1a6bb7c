// Package translate turns a mesh into Envoy's messages for one proxy, named and shaped as Istio
// names and shapes them, with only those filters that a stock Envoy has.
//
// Its packages are pure functions: no I/O, no clocks, no locks, and the same input gives the same
// bytes. Only memory remembers anything. Each message is made from its own inputs alone, so that
// one cluster, load assignment or virtual host can be remade without the rest. Messages share parts
// that never change: do not write to what is returned.
//
// view is what goes in. cluster, endpoint, outbound, inbound, gateway, division, secret and dns
// make what comes out, of what the others make. This package puts the parts of one proxy together.
package translate

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/cluster"
	"github.com/pgmesh/pgmesh/discovery/translate/division"
	"github.com/pgmesh/pgmesh/discovery/translate/endpoint"
	"github.com/pgmesh/pgmesh/discovery/translate/gateway"
	"github.com/pgmesh/pgmesh/discovery/translate/inbound"
	"github.com/pgmesh/pgmesh/discovery/translate/memory"
	"github.com/pgmesh/pgmesh/discovery/translate/outbound"
	"github.com/pgmesh/pgmesh/discovery/translate/telemetry"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Clusters returns every cluster of a proxy: one for each port of each service and subset that it
// may see, the fixed ones, and those of the ports that its own workload serves.
func Clusters(v view.View) []*clusterv3.Cluster {
	var out []*clusterv3.Cluster
	for _, b := range upstream.Backends(v) {
		out = append(out, cluster.Of(v, b)...)
	}
	return append(out, cluster.Own(v)...)
}

// Endpoints returns the load assignment of every cluster that asks for one.
func Endpoints(v view.View) []*endpointv3.ClusterLoadAssignment {
	var out []*endpointv3.ClusterLoadAssignment
	for _, b := range upstream.Backends(v) {
		out = append(out, endpoint.Assignments(v, b)...)
	}
	return out
}

// Listeners returns every listener of a proxy.
func Listeners(v view.View) []*listenerv3.Listener {
	return append(OutboundListeners(v), InboundListeners(v)...)
}

// OutboundListeners are those for what the proxy sees. All of a router's are.
func OutboundListeners(v view.View) []*listenerv3.Listener {
	if !v.Sidecar() {
		return logged(v, gateway.Listeners(v), mesh.AsClient)
	}
	return logged(v, outbound.Listeners(v), mesh.AsClient)
}

// InboundListeners are those for what the workload serves.
func InboundListeners(v view.View) []*listenerv3.Listener {
	if !v.Sidecar() {
		return nil
	}
	return logged(v, inbound.Listeners(v), mesh.AsServer)
}

func logged(v view.View, listeners []*listenerv3.Listener, role mesh.Role) []*listenerv3.Listener {
	logs := telemetry.ListenerLogs(v, role)
	for _, l := range listeners {
		l.AccessLog = logs
	}
	return listeners
}

// Routes returns every route configuration that the listeners of a proxy ask for.
func Routes(v view.View) []*routev3.RouteConfiguration {
	return division.Whole(v, memory.ForOnce(v))
}
