package translate

import (
	"slices"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// Rerouted are the virtual hosts that have other routes now, for a proxy whose divisions were made with the memory when it saw the scope before,
// which had the same services and policies: the most frequent change of all, that of a rule, costs what it changes. It reports false where
// more may have changed than routes; then all divisions have to be made.
func (s Sight) Rerouted(m *Memory, before *mesh.Scope) (hosts []Host, ok bool) {
	if m.mixed || !s.sidecar() || len(before.Egress) != len(s.scope.Egress) {
		return nil, false
	}
	s.memory = m
	for i, egress := range s.scope.Egress {
		old := before.Egress[i].VirtualServices
		if len(old) != len(egress.VirtualServices) {
			return nil, false
		}
		for j, vs := range egress.VirtualServices {
			if old[j] == vs {
				continue
			}
			changed, ok := m.replace(s.view, i, old[j], vs)
			if !ok {
				return nil, false
			}
			hosts = append(hosts, changed...)
		}
		for at, p := range m.now.ports {
			if at.egress == i {
				p.services.egress = egress
			}
		}
	}
	return hosts, true
}

// replace puts a rule in the place of another, on all ports of an egress listener.
func (m *Memory) replace(v view, egress int, old, vs *mesh.VirtualService) (hosts []Host, ok bool) {
	for at, p := range m.now.ports {
		if at.egress != egress {
			continue
		}
		changed, ok := p.replace(v, old, vs)
		if !ok {
			return nil, false
		}
		delete(m.now.ruled, routeContext{view: v, vs: old, port: p.port, gateways: onSidecars}.key())
		for _, h := range changed {
			h.name = HostName(number(p.port), h.name)
			hosts = append(hosts, Host{h, v.countsAttempts()})
		}
	}
	return hosts, true
}

// replace gives the hosts of a rule the routes of another, if that is for the same hosts.
func (p *portHosts) replace(v view, old, vs *mesh.VirtualService) (changed []virtualHost, ok bool) {
	before := p.ruled[old]
	if before == nil || p.rivalled || before.hosts == nil {
		return nil, false
	}
	now := v.ruledGroup(vs, p.services)
	if now.hosts == nil || now.there != before.there || !now.alike(&before.routeGroup) {
		return nil, false
	}
	at := slices.IndexFunc(p.groups, func(g routeGroup) bool { return g.routes == before.routes })
	if now.there && at < 0 {
		return nil, false
	}
	delete(p.ruled, old)
	now.seen, p.ruled[vs] = p.goes, now
	if !now.there {
		return nil, true
	}
	p.groups[at] = now.routeGroup
	p.reroute(&before.routeGroup, &now.routeGroup)
	for name := range now.names(p.port) {
		if at, found := p.find(name); found {
			changed = append(changed, p.hosts[at])
		}
	}
	return changed, true
}
