package view

import (
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/translate/naming"
)

// ResolvesUnknown reports whether the proxy finds the address of unknown hosts itself, and does not
// send requests to where the client connected. A Sidecar has no such mode of its own.
func (v View) ResolvesUnknown() bool {
	return v.Sidecar() && int32(v.Scope.Unknown.GetMode()) == int32(meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS)
}

// UnknownCluster is where traffic to unknown destinations goes: where it was meant to, through the
// proxy that the Sidecar names, or nowhere.
func (v View) UnknownCluster() string {
	proxy := v.Scope.Unknown.GetEgressProxy()
	switch {
	case !v.Scope.AllowsAny():
		return naming.BlackHoleCluster
	case proxy != nil:
		return naming.Cluster(proxy.GetPort().GetNumber(), proxy.GetSubset(), strings.ToLower(proxy.GetHost()))
	default:
		return naming.PassthroughCluster
	}
}
