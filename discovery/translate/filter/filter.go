// Package filter makes the network filters that filter chains end in: HTTP connection managers,
// which read requests, and TCP proxies.
package filter

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/authorization"
	"github.com/pgmesh/pgmesh/discovery/translate/metrics"
	"github.com/pgmesh/pgmesh/discovery/translate/telemetry"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Context is what the filters of a proxy's listeners are made in.
type Context struct {
	view.View

	// Certified tells that the certificates of the clients of a filter chain are checked.
	Certified bool
	// Shows is the credential of what the proxy shows to backends of the connections; "" for nothing.
	Shows string

	serving bool // what a sidecar's workload serves
	guard   authorization.Guard
	added   []*mesh.Extension
	logs    []*accesslogv3.AccessLog
	trace   *hcmv3.HttpConnectionManager_Tracing
	ids     *hcmv3.RequestIDExtension
	// counts has requests and connections counted; service is the one that they are for.
	counts  metrics.Metrics
	service string
}

// Unguarded is for what the machine's own applications send.
func Unguarded(v view.View) Context { return telling(v, mesh.AsClient) }

func telling(v view.View, role mesh.Role) Context {
	c := Context{
		View: v, added: v.Mesh.Extensions(v.Proxy),
		logs: telemetry.AccessLogs(v, role), trace: telemetry.Tracing(v, role), ids: tracingIDs, counts: metrics.Of(v, role),
	}
	if c.trace != nil && !telemetry.ReadsRequestID(v, role) {
		c.ids = plainIDs
	}
	return c
}

// Guarded is for what comes in: the policies for the proxy decide what passes.
func Guarded(v view.View) Context {
	role := mesh.AsServer
	if !v.Sidecar() {
		role = mesh.AsClient // as by Istio: what a router is asked, it asks others
	}
	c := telling(v, role)
	c.guard, c.serving = authorization.Of(v), v.Sidecar()
	return c
}

// For is for what comes in for a service, by its host.
func (c Context) For(service string) Context {
	c.service = service
	return c
}

// Certifying is for a chain that checks the certificates of clients, or does not.
func (c Context) Certifying(clients bool) Context {
	c.Certified = clients
	return c
}
