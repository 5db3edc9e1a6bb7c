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
