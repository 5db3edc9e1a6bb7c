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
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// view is one proxy's view of one mesh: the input of every translation.
type view struct {
	mesh   *mesh.Mesh
	config *meshconfig.MeshConfig
	proxy  *mesh.Proxy
	scope  *mesh.Scope

	ipv4, ipv6 bool // the families of addresses that the proxy has

	memory *Memory // of routes; nil where none are made

	guard     guard // of listeners
	certified bool  // the certificates of the clients of a filter chain are checked

	// What every filter of the listeners shares.
	logs  []*accesslogv3.AccessLog
	trace *hcmv3.HttpConnectionManager_Tracing
}

func newView(m *mesh.Mesh, p *mesh.Proxy) view {
	p = m.Known(p)
	return view{mesh: m, config: m.Config, proxy: p, scope: m.Scope(p), ipv4: p.HasIPv4(), ipv6: p.HasIPv6()}
}

// observed is the view with what filters tell of requests and connections.
func (v view) observed() view {
	v.logs, v.trace = v.accessLogs(), v.tracing()
	return v
}

func (v view) sidecar() bool { return v.proxy.Type == mesh.Sidecar }

func (v view) intercepted() bool { return v.proxy.Interception != mesh.InterceptionNone }
