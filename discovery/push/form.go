package push

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// classKey tells the classes apart.
type classKey struct {
	mesh.Class

	// divided says that the proxies take virtual hosts as resources of their own.
	divided bool
}

// firstDividing is the oldest minor version of Envoy 1 that this was tested with. Older ones do not
// ask for virtual hosts on the stream that brings everything else.
const firstDividing = 40

// divides reports whether a client takes virtual hosts as resources of their own. Only an Envoy
// that speaks delta does; any other would read a route configuration without virtual hosts as one
// that routes nothing.
func divides(node *corev3.Node, incremental bool) bool {
	version := node.GetUserAgentBuildVersion().GetVersion()
	major, minor := version.GetMajorNumber(), version.GetMinorNumber()
	return incremental && node.GetUserAgentName() == "envoy" && (major > 1 || major == 1 && minor >= firstDividing)
}

// ScopedFrom is the number of rules with exact hosts on a router's port from which its routes are
// sent host by host. Envoy needs 16 µs for each virtual host of a configuration in which one
// changes, and 1.3 ms for a configuration of one host. With fewer rules, one configuration is as
// quick and takes less memory.
const ScopedFrom = 100

// DivideByHostsFrom sets the number of rules from which a router's routes are sent host by host; 0
// means never. Call it before the first proxy connects.
func (e *Engine) DivideByHostsFrom(rules int) { e.scopedFrom = rules }

// served returns the proxy without the abilities that its client lacks, and with the ones it has.
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
