package mesh

import (
	"fmt"
	"slices"
	"strings"

	extensions "istio.io/api/extensions/v1alpha1"
	selection "istio.io/api/type/v1beta1"
)

// Traffic is what an extension may be put into the way of.
type Traffic struct {
	// Served tells that the proxy's workload serves it. Otherwise the workload asks for it, or it
	// comes to a gateway.
	Served bool
	// Port is the one that clients ask for, or that the workload serves at; 0 if nobody declared it.
	Port uint32
}

// OnRequests reports whether the extension reads requests. Otherwise it reads the bytes of
// connections.
func (e *Extension) OnRequests() bool {
	return e.Spec.GetWasm().GetType() != extensions.PluginType_NETWORK
}

// Matches reports whether the extension is for some of a proxy's traffic.
func (e *Extension) Matches(t Traffic) bool {
	all := e.Spec.GetMatch()
	return len(all) == 0 || slices.ContainsFunc(all, func(m *extensions.TrafficSelector) bool {
		return matchesMode(m.GetMode(), t.Served) && matchesPort(m.GetPorts(), t.Port)
	})
}

func matchesMode(mode selection.WorkloadMode, served bool) bool {
	switch mode {
	case selection.WorkloadMode_CLIENT:
		return !served
	case selection.WorkloadMode_SERVER:
		return served
	case selection.WorkloadMode_UNDEFINED, selection.WorkloadMode_CLIENT_AND_SERVER:
		return true
	default:
		return true
	}
}

func matchesPort(ports []*selection.PortSelector, port uint32) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p *selection.PortSelector) bool { return p.GetNumber() == port && port != 0 })
}

// FailsOpen reports whether traffic passes where the extension is not at hand.
func (e *Extension) FailsOpen() bool {
	return e.Spec.GetWasm().GetFailStrategy() == extensions.FailStrategy_FAIL_OPEN
}

// encodePlace says what listeners have of an extension, beside the order that its priority makes:
// equal texts, equal filters.
func (e *Extension) encodePlace() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d:%t", e.Name, e.Spec.GetPhase(), e.priority(), e.FailsOpen())
	for _, m := range e.Spec.GetMatch() {
		fmt.Fprintf(&b, ":%d", m.GetMode())
		for _, p := range m.GetPorts() {
			fmt.Fprintf(&b, "/%d", p.GetNumber())
		}
	}
	return b.String() + ","
}
