package translate

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// Some conditions of a rule are known of a proxy and port before any request: those here. Envoy never sees them.

// onSidecars is the name by which rules mean sidecars.
var onSidecars = []string{mesh.MeshGateway}

// applies reports whether a match is for this proxy and port.
func (c routeContext) applies(m *networking.HTTPMatchRequest) bool {
	if m.GetPort() != 0 && m.GetPort() != c.port {
		return false
	}
	if len(m.GetGateways()) > 0 {
		return anyOf(m.GetGateways(), c.gateways) // a named gateway makes labels and namespace meaningless, as in Istio
	}
	return c.isSource(m.GetSourceLabels(), m.GetSourceNamespace())
}

// isSource reports whether a rule that names where connections come from means this proxy.
func (v view) isSource(labels map[string]string, namespace string) bool {
	return mesh.LabelsWithin(labels, v.proxy.Labels) && (namespace == "" || namespace == v.proxy.Namespace)
}

// anyOf reports whether one of the wanted is in list.
func anyOf(wanted, list []string) bool {
	return slices.ContainsFunc(wanted, func(w string) bool { return slices.Contains(list, w) })
}

// l4Match is what matches of connections have in common: TCP's and TLS's.
type l4Match interface {
	GetGateways() []string
	GetSourceLabels() map[string]string
	GetSourceNamespace() string
	GetPort() uint32
}

// connects reports whether a match is for connections to this port by the proxy, which rules mean by these gateways.
func (v view) connects(m l4Match, gateways []string, port uint32) bool {
	return (len(m.GetGateways()) == 0 || anyOf(m.GetGateways(), gateways)) &&
		v.isSource(m.GetSourceLabels(), m.GetSourceNamespace()) && (m.GetPort() == 0 || m.GetPort() == port)
}
