package memory

import (
	"slices"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/binding"
	"github.com/pgmesh/pgmesh/discovery/translate/need"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// ListensAlike reports whether a proxy that listened for this still listens as it did, after what
// it sees changed. It does if all services that came share listeners that were there. Changed are
// the hosts that have another service, or another policy. It may report false of a proxy that
// listens alike.
func ListensAlike(v view.View, since *mesh.ScopeChange, listened []any, changed map[string]bool) bool {
	if !v.Sidecar() || len(v.Scope.Egress) != 1 {
		return false
	}
	is, differs := v.Scope.Egress[0], since.Egress[0]
	if ListensAnew(v, since) {
		return false
	}
	come, ok := differs.Reshaped()
	if !ok || !among(come, changed) || slices.ContainsFunc(come, func(s *mesh.Service) bool { return v.Scope.Policies(s.Hostname).Session() != nil }) {
		return false // rules on other ports may lead to a service with sessions
	}
	news, needed := *is, need.InEgress(v, is)
	news.Services = come
	for o := range binding.Ports(v, &news) {
		if upstream.IsDynamic(o.Service) || !sharesListener(v, o, listened, needed) {
			return false
		}
	}
	return true
}

// ListensAnew reports whether rules have come or gone on which listeners depend: those for connections,
// and those that need a filter.
func ListensAnew(v view.View, since *mesh.ScopeChange) bool {
	needing := need.Rules(v)
	matters := func(vs *mesh.VirtualService) bool { return vs.ForConnections() || needing(vs) }
	return slices.ContainsFunc(since.Egress, func(e mesh.EgressChange) bool {
		return slices.ContainsFunc(e.VirtualServices.Gone, matters) || slices.ContainsFunc(e.VirtualServices.Come, matters)
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

// sharesListener reports whether an existing listener takes the requests of a service, and nothing
// else can be in the way.
func sharesListener(v view.View, o binding.Port, listened []any, needed need.Egress) bool {
	if !o.Port.Protocol.IsHTTP() && o.Port.Protocol != mesh.ProtocolHTTPProxy {
		return false
	}
	b := binding.Shared(v, o.Binding)
	there, needs := false, needed.OnPort(o.Port.Number)
	for _, l := range listened {
		switch l := l.(type) {
		case byRequests:
			there = there || l == byRequests{b.Binds[0], o.Port.Number, o.Port.Protocol, b.Explicit, needs}
		case byAddress:
			if l.port == nil || l.port.Number == o.Port.Number {
				return false
			}
		case *mesh.VirtualService: // connections may be sent to any of the services
			return false
		}
	}
	return there
}
