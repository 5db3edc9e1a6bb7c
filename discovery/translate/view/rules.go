package view

import (
	"slices"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// OnSidecars are the gateways by which rules mean sidecars.
var OnSidecars = []string{mesh.MeshGateway}

// IsSource reports whether a rule that names where connections come from means this proxy.
func (v View) IsSource(labels map[string]string, namespace string) bool {
	return kinds.LabelsWithin(labels, v.Proxy.Labels) && (namespace == "" || namespace == v.Proxy.Namespace)
}

// L4Match is what matches of TCP and of TLS have in common.
type L4Match interface {
	GetGateways() []string
	GetSourceLabels() map[string]string
	GetSourceNamespace() string
	GetPort() uint32
}

// Connects reports whether a match is for connections by the proxy to this port. Rules mean the
// proxy by these gateways.
func (v View) Connects(m L4Match, gateways []string, port uint32) bool {
	return (len(m.GetGateways()) == 0 || AnyOf(m.GetGateways(), gateways)) &&
		v.IsSource(m.GetSourceLabels(), m.GetSourceNamespace()) && (m.GetPort() == 0 || m.GetPort() == port)
}

// AnyOf reports whether one of the wanted is in list.
func AnyOf(wanted, list []string) bool {
	return slices.ContainsFunc(wanted, func(w string) bool { return slices.Contains(list, w) })
}
