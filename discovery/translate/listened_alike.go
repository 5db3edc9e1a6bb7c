package translate

import (
	"slices"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// ListensAlike reports whether a proxy listens as it did before what it sees has changed, and this was what it listened for. It does if services
// have come whose requests are taken by listeners that were there. Changed are the hosts that have another service, or another policy. It may say
// false though the proxy listens alike.
func (s View) ListensAlike(since *mesh.ScopeChange, listened []any, changed map[string]bool) bool {
	if !s.sidecar() || len(s.scope.Egress) != 1 {
		return false
	}
	is, differs := s.scope.Egress[0], since.Egress[0]
	if ConnectsAnew(since) {
		return false
	}
	come, ok := differs.Reshaped()
	if !ok || !among(come, changed) {
		return false
	}
	news := *is
	news.Services = come
	for o := range s.outboundPorts(&news) {
		if isDynamic(o.service) || !s.sharesListener(o, listened) {
			return false
		}
	}
	return true
}

// ConnectsAnew reports whether rules for connections have come or gone.
func ConnectsAnew(since *mesh.ScopeChange) bool {
	return slices.ContainsFunc(since.Egress, func(e mesh.EgressChange) bool {
		return slices.ContainsFunc(e.VirtualServices.Gone, ForConnections) || slices.ContainsFunc(e.VirtualServices.Come, ForConnections)
	})
}

// among reports whether all hosts are hosts of some services.
func among(services []*mesh.Service, hosts map[string]bool) bool {
	found := 0
	for _, s := range services {
		if hosts[s.Hostname] {
			found++
		}
	}
	return found == len(hosts)
}

// sharesListener reports whether an existing listener for requests takes those of a service, and that nothing else may be in the
// way of.
func (v view) sharesListener(o outboundPort, listened []any) bool {
	if !o.port.Protocol.IsHTTP() && o.port.Protocol != mesh.ProtocolHTTPProxy {
		return false
	}
	b := v.shared(o.binding)
	there := false
	for _, l := range listened {
		switch l := l.(type) {
		case byRequests:
			there = there || l == byRequests{b.binds[0], o.port.Number, o.port.Protocol, b.explicit}
		case byAddress:
			if l.port == nil || l.port.Number == o.port.Number {
				return false
			}
		case *mesh.VirtualService: // connections may be sent to any of the services
			return false
		}
	}
	return there
}

// ForConnections reports whether a rule routes connections, by TCP or TLS.
func ForConnections(vs *mesh.VirtualService) bool {
	return len(vs.Spec.GetTcp())+len(vs.Spec.GetTls()) > 0
}
