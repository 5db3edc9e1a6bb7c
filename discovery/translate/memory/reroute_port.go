package memory

import (
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// portEdit is an edit of the virtual hosts of one port.
type portEdit struct {
	*portHosts

	*egressEdit
	was     map[string]*mesh.Service // of hosts that have another service on the port; nil for none
	touched map[string]bool          // hosts whose routes have to be looked at
	groups  []groupEdit
	names   map[string]bool // of virtual hosts that have changed, and false for those that have gone
}

// groupEdit is what the group of a rule, or of a service, was and is; nil for none.
type groupEdit struct{ was, is *routeGroup }

// edit brings the hosts to what an egress listener has now, and tells what has changed. It reports
// false if the order of claims matters, or too much has changed: then nothing that it did is of
// use.
func (p *portHosts) edit(e *egressEdit, out *Rerouting) bool {
	if p.contested || p.domains == nil {
		return false
	}
	p.services.egress, p.edited = e.egress, true
	edit := portEdit{portHosts: p, egressEdit: e, touched: map[string]bool{}, names: map[string]bool{}}
	if !edit.exchangeServices() || !edit.exchangeRules() || !edit.touchRules() {
		return false
	}
	edit.touchServices()
	if !edit.apply() {
		return false
	}
	return edit.tell(out)
}

// exchangeServices updates the services with the port.
func (p *portEdit) exchangeServices() bool {
	gone, come := onPort(p.egressEdit.services.Gone, p.port), onPort(p.egressEdit.services.Come, p.port)
	if len(gone)+len(come)+len(p.changed) > mostPatched {
		return false
	}
	services := &p.portHosts.services
	var ok bool
	if p.was, ok = services.exchange(gone, come); !ok {
		return false
	}
	maps.Copy(p.touched, p.changed)
	for host, was := range p.was {
		if shapeOf(was) != shapeOf(services.byHost[host]) {
			p.touched[host] = true
		}
	}
	return true
}

// exchangeRules makes the groups of rules that have come, each in the place of one that has gone if
// there is one.
func (p *portEdit) exchangeRules() bool {
	gone, come := p.rules.Gone, p.rules.Come
	for i := range max(len(gone), len(come)) {
		var edit groupEdit
		if i < len(gone) {
			known, ok := p.forgetRule(gone[i])
			if !ok {
				return false
			}
			edit.was = known.group()
		}
		if i < len(come) {
			edit.is = p.rule(come[i]).group()
		}
		p.groups = append(p.groups, edit)
	}
	return true
}

func (p *portEdit) forgetRule(vs *mesh.VirtualService) (*ruledGroup, bool) {
	known := p.ruled[vs].ruledGroup
	if known == nil || known.usedIn != p.round {
		return nil, false
	}
	delete(p.ruled, vs)
	delete(p.memory.now.ruled, keyOf(route.Context{View: p.View, Rule: vs, Port: p.port, Gateways: view.OnSidecars}))
	return known, true
}

// rule makes the group of a rule.
func (p *portEdit) rule(vs *mesh.VirtualService) *ruledGroup {
	group := p.ruledGroup(vs, p.portHosts.services)
	group.usedIn, p.ruled[vs] = p.round, group.known()
	return group
}

// group is the group that the rule makes, or nil.
func (g *ruledGroup) group() *routeGroup {
	if !g.there {
		return nil
	}
	return &g.routeGroup
}

// touchRules remakes the groups of rules that depend on hosts that have changed, or on more hosts
// than can be listed.
func (p *portEdit) touchRules() bool {
	if len(p.touched) == 0 && !slices.ContainsFunc(p.groups, groupEdit.moves) {
		return true
	}
	come := make(map[*mesh.VirtualService]bool, len(p.rules.Come))
	for _, vs := range p.rules.Come {
		come[vs] = true
	}
	var bits hostBits
	for host := range p.touched {
		bits |= bitOf(host)
	}
	for vs, known := range p.ruled {
		if known.bits != allHosts && known.bits&bits == 0 {
			continue
		}
		if known.usedIn != p.round || come[vs] || known.hosts != nil && !slices.ContainsFunc(known.hosts, p.isTouched) {
			continue
		}
		if p.groups = append(p.groups, groupEdit{known.group(), p.rule(vs).group()}); len(p.groups) > mostPatched {
			return false
		}
	}
	return true
}

func (p *portEdit) isTouched(host string) bool { return p.touched[host] }

// moves reports whether hosts come to a group or leave it.
func (g groupEdit) moves() bool {
	return (g.was == nil) != (g.is == nil) || g.was != nil && !g.was.alike(g.is)
}

// touchServices remakes the groups of services that no rule routes: of hosts that have changed, and
// of those that rules have come to or gone from.
func (p *portEdit) touchServices() {
	was, is := p.routedBy(func(g groupEdit) *routeGroup { return g.was }), p.routedBy(func(g groupEdit) *routeGroup { return g.is })
	hosts := maps.Clone(p.touched)
	maps.Copy(hosts, was)
	maps.Copy(hosts, is)
	direct := make(map[string]*routeGroup, len(hosts))
	for host := range hosts {
		direct[host] = p.directBefore(host)
	}
	for host := range was {
		delete(p.routed, host)
	}
	maps.Copy(p.routed, is)
	for host := range hosts {
		p.groups = append(p.groups, groupEdit{direct[host], p.direct(host)})
	}
}

// routedBy are the hosts of the services that the groups of rules are for.
func (p *portEdit) routedBy(side func(groupEdit) *routeGroup) map[string]bool {
	hosts := map[string]bool{}
	for _, g := range p.groups {
		if group := side(g); group != nil {
			for _, s := range group.services {
				hosts[s.Hostname] = true
			}
		}
	}
	return hosts
}

// directBefore is the group of a service that no rule routed, without its routes. It forgets those.
func (p *portEdit) directBefore(host string) *routeGroup {
	now := p.portHosts.services.byHost[host]
	was, other := p.was[host]
	if !other {
		was = now
	}
	if was == nil {
		return nil
	}
	delete(p.memory.now.direct, directKeyOf(p.Proxy, p.before, was, p.port))
	if was.Shape != shapeOf(now) {
		delete(p.memory.now.domains, was.Shape)
	}
	if p.routed[host] || !was.Port(p.port).Protocol.HasRoutes() {
		return nil
	}
	return &routeGroup{services: []*mesh.Service{was}}
}

// direct is the group of a service that no rule routes.
func (p *portEdit) direct(host string) *routeGroup {
	s := p.portHosts.services.byHost[host]
	if s == nil || p.routed[host] || !s.Port(p.port).Protocol.HasRoutes() {
		return nil
	}
	return &routeGroup{services: []*mesh.Service{s}, routes: p.memory.direct(p.View, s, p.port)}
}

// apply gives new routes to hosts that stay, releases those that go, and claims for those that
// come.
func (p *portEdit) apply() bool {
	var come []routeGroup
	for _, g := range p.groups {
		switch {
		case !g.moves():
			p.rerouteNamed(g)
			continue
		case g.is != nil:
			come = append(come, *g.is)
		}
		if g.was != nil && !p.releaseNamed(g.was) {
			return false
		}
	}
	c := p.latecomers(come)
	if c.comeTooLate() {
		return false
	}
	for i := range come {
		c.claim(p.recalling, &come[i])
		for name := range come[i].names(p.port) {
			p.names[name] = true
		}
	}
	return !p.contested
}

func (p *portEdit) rerouteNamed(g groupEdit) {
	if g.is == nil || g.was.routes == g.is.routes {
		return
	}
	p.reroute(g.was, g.is)
	for name := range g.is.names(p.port) {
		p.names[name] = true
	}
}

// releaseNamed releases the hosts of a group. It reports false if one of them takes all requests:
// without it another is made that does.
func (p *portEdit) releaseNamed(g *routeGroup) bool {
	for name := range g.names(p.port) {
		if at, found := p.find(name); found && p.hosts[at].TakesAll() {
			return false
		}
		p.names[name] = false
	}
	p.release(g)
	return true
}

// tell lists what has become of the virtual hosts. It reports false if one takes all requests now.
func (p *portEdit) tell(out *Rerouting) bool {
	configuration := naming.Number(p.port)
	for name, stays := range p.names {
		if !stays {
			out.Gone = append(out.Gone, naming.Host(configuration, name))
			continue
		}
		at, found := p.find(name)
		if !found {
			return false
		}
		h := p.hosts[at]
		if h.TakesAll() {
			return false
		}
		out.Hosts = append(out.Hosts, h.In(configuration, p.CountsAttempts()))
	}
	return true
}
