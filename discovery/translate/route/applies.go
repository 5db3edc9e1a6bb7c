package route

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Some conditions of a rule are known of a proxy and port before any request: those here. Envoy
// never sees them.

// applies reports whether a match is for this proxy and port.
func (c Context) applies(m *networking.HTTPMatchRequest) bool {
	if m.GetPort() != 0 && m.GetPort() != c.Port {
		return false
	}
	if len(m.GetGateways()) > 0 {
		return view.AnyOf(m.GetGateways(), c.Gateways) // a named gateway makes labels and namespace meaningless, as in Istio
	}
	return c.IsSource(m.GetSourceLabels(), m.GetSourceNamespace())
}
