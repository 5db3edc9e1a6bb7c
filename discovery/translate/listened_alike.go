package translate

import (
	"slices"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// ListensAlike reports whether a proxy listens as it did when it saw the scope before, and this was what it listened for. It does if services have
// come whose requests are taken by listeners that were there. Changed are the hosts that have another service, or another policy. It may say false
// though the proxy listens alike.
func (s View) ListensAlike(before *mesh.Scope, listened []any, changed map[string]bool) bool {
	if !s.sidecar() || len(s.scope.Egress) != 1 || len(before.Egress) != 1 {
		return false
	}
	was, is := before.Egress[0], s.scope.Egress[0]
	rules, services := exchangeOf(was.VirtualServices, is.VirtualServices), exchangeOf(was.Services, is.Services)
	if slices.ContainsFunc(rules.gone, ForConnections) || slices.ContainsFunc(rules.come, ForConnections) {
		return false
	}
	come, ok := reshaped(services)
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

// reshaped are the services that have come, but for those that had the same shape before. It reports false if others have gone.
func reshaped(services exchange[*mesh.Service]) (come []*mesh.Service, ok bool) {
	shapes := make(map[*mesh.Shape]bool, len(services.come))
	for _, s := range services.come {
		shapes[s.Shape] = true
	}
	for _, s := range services.gone {
		if !shapes[s.Shape] {
			return nil, false
		}
		delete(shapes, s.Shape)
	}
	for _, s := range services.come {
		if shapes[s.Shape] {
			come = append(come, s)
		}
	}
	return come, true
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
