package push

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// classKey is what proxies have in common that get the same.
type classKey struct {
	mesh.Class

	// divided says that they take virtual hosts by themselves.
	divided bool
}

// firstDividing is the minor version of Envoy 1 that this was tried with. Old ones refuse to ask for virtual hosts over the stream by which
// they are sent everything else.
const firstDividing = 40

// divides tells whether a client takes virtual hosts by themselves: an Envoy of the delta form does. Any other client would take a
// route configuration without them for one that routes nothing.
func divides(node *corev3.Node, incremental bool) bool {
	version := node.GetUserAgentBuildVersion().GetVersion()
	major, minor := version.GetMajorNumber(), version.GetMinorNumber()
	return incremental && node.GetUserAgentName() == "envoy" && (major > 1 || major == 1 && minor >= firstDividing)
}

// ScopedFrom is by how many rules with exact hosts on a router's port its routes are sent host by host. Envoy takes 16 µs for each virtual host of
// a route configuration when one comes or changes, and 1.3 ms for a configuration of one host: with fewer, the former is as quick and has less to
// it.
const ScopedFrom = 100

// DivideByHostsFrom has routes on routers sent host by host from so many rules on, and never by 0. It is for before the first proxy comes.
func (e *Engine) DivideByHostsFrom(rules int) { e.scopedFrom = rules }

// served is the proxy as it is served: what it cannot take it is not given, and what it can is.
func (k *classKey) served(p *mesh.Proxy, scopedFrom int) *mesh.Proxy {
	if !k.divided || p.Type != mesh.Router {
		scopedFrom = 0
	}
	if (!p.OnDemand || k.divided) && p.ScopedFrom == scopedFrom {
		return p
	}
	out := *p
	out.OnDemand, out.ScopedFrom = p.OnDemand && k.divided, scopedFrom
	return &out
}
