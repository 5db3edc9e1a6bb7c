package mesh

import "slices"

// scopePatch is the next scope in the making. It goes through the hosts that the changes may be
// about.
type scopePatch struct {
	*catalog

	changed *changes
	before  rememberedScope // not changed
	scope   Scope           // a copy, which the patch changes
	egress  Egress          // a copy of its only listener

	policies *tableEdit[string, *BackendPolicies]

	hosts  []string           // whose services may have changed
	listed Exchange[*Service] // of the services that the listener has
	head   Exchange[*Service] // of those services of the scope that the listener has
	tail   []*Service         // services that went, of those that only rules led to
	byHost *tableEdit[string, *Service]
	rules  *tableEdit[string, []*DestinationRule]
	differ bool // the result is not the scope before

	virtual Exchange[*VirtualService] // of the rules that the listener obeys
	touched []string                  // hosts with another service, or other rules for it
}

// patchScope makes the next scope from the one before, if that has a single listener, for all
// ports, and no change is about services that only rules lead to. It returns the same scope if that
// shows the same.
func (m *Mesh) patchScope(before rememberedScope, changed *changes) (*Scope, bool) {
	if len(before.scope.Egress) != 1 || before.scope.Egress[0].ownPort() || changed.many() {
		return nil, false
	}
	p := scopePatch{
		catalog: &m.catalog, changed: changed, before: before, scope: *before.scope, egress: *before.scope.Egress[0],
		byHost: before.scope.byHost.edit(), rules: before.scope.rules.edit(),
		policies: before.scope.policies.edit(),
	}
	p.replaceVirtualServices()
	for _, s := range slices.Concat(changed.services.Gone, changed.services.Come) {
		if before.scope.sees(s) {
			p.hosts = append(p.hosts, s.Hostname)
		}
	}
	slices.Sort(p.hosts)
	for _, host := range slices.Compact(p.hosts) {
		if !p.replaceHost(host) {
			return nil, false
		}
	}
	for _, at := range changed.rules {
		p.replaceRules(at)
	}
	return p.done(m.build), true
}

// done returns the patched scope, or the one before if nothing in it differs.
func (p *scopePatch) done(build int) *Scope {
	if !p.differ {
		return p.before.scope
	}
	lists := &p.changed.serviceLists
	p.egress.Services = lists.patched(p.egress.Services, p.listed, compareShown)
	head := lists.patched(p.scope.Services[:p.scope.listed], p.head, compareShown)
	tail := p.scope.Services[p.scope.listed:]
	if len(tail) > 0 {
		head = slices.Concat(head, without(tail, p.tail))
	}
	// Copies: the patch refers to the scope before, which must not live as long as this one.
	scope, egress := p.scope, p.egress
	scope.listed += len(p.head.Come) - len(p.head.Gone)
	scope.Services, scope.Egress = head, []*Egress{&egress}
	scope.byHost, scope.rules, scope.policies = p.byHost.done(), p.rules.done(), p.policies.done()
	scope.build, scope.follows = build, p.before.scope.build
	scope.change = &ScopeChange{Hosts: p.touched, Egress: []EgressChange{{Services: p.listed, VirtualServices: p.virtual}}}
	return &scope
}

// replaceVirtualServices applies the changes of rules that the listener obeys. The hosts that these
// rules send to have to be looked at, too.
func (p *scopePatch) replaceVirtualServices() {
	gone, come := those(p.changed.virtual.Gone, p.egress.obeys), those(p.changed.virtual.Come, p.egress.obeys)
	if len(gone) == 0 && len(come) == 0 {
		return
	}
	p.differ, p.virtual = true, Exchange[*VirtualService]{gone, come}
	p.egress.VirtualServices = p.replacedVirtualServices(p.virtual)
	p.egress.byName = p.egress.replacedOwners(gone, come)
	for _, vs := range slices.Concat(gone, come) {
		for _, d := range vs.sendsTo {
			p.hosts = append(p.hosts, d.host)
		}
	}
}

// replacedVirtualServices returns the rules that the listener obeys now. Public rules that come in
// the order of their age are in a list that scopes share, unless the first rule, and so any, comes before
// them for this namespace alone.
func (p *scopePatch) replacedVirtualServices(c Exchange[*VirtualService]) []*VirtualService {
	private := func(vs *VirtualService) bool { return vs.rank(p.egress.namespace) != rankPublic }
	list, compare := p.egress.VirtualServices, obeyedBefore(p.egress.namespace)
	if len(list) > 0 && private(list[0]) || slices.ContainsFunc(c.Gone, private) || slices.ContainsFunc(c.Come, private) {
		return patched(list, c.Gone, c.Come, compare)
	}
	return p.changed.virtualLists.patched(list, c, compare)
}

// replacedOwners finds the first rule for each host that lost or gained one.
func (e *Egress) replacedOwners(gone, come []*VirtualService) hostIndex[*VirtualService] {
	edit, before := e.byName.edit(), obeyedBefore(e.namespace)
	orphans := map[hostAt]*VirtualService{}
	eachHost(gone, func(at hostAt, vs *VirtualService) {
		if edit.values.get(at) == vs {
			orphans[at] = vs
		}
	})
	eachHost(come, func(at hostAt, vs *VirtualService) { // the same ones, edited
		if lost, orphan := orphans[at]; orphan && before(lost, vs) == 0 {
			delete(orphans, at)
			edit.put(at, vs, false)
		}
	})
	eachHost(come, func(at hostAt, vs *VirtualService) {
		if owner := edit.values.get(at); owner == nil || before(vs, owner) < 0 {
			edit.put(at, vs, false)
			delete(orphans, at)
		}
	})
	if len(orphans) > 0 {
		e.adopt(orphans, edit)
	}
	return edit.done()
}

func eachHost(rules []*VirtualService, visit func(hostAt, *VirtualService)) {
	for _, vs := range rules {
		for _, host := range vs.Spec.GetHosts() {
			visit(placeOf("", host), vs)
		}
	}
}

// adopt looks for the next rule for hosts whose first rule went.
func (e *Egress) adopt(orphans map[hostAt]*VirtualService, edit hostEdit[*VirtualService]) {
	for at := range orphans {
		edit.put(at, nil, true)
	}
	for _, vs := range e.VirtualServices {
		for _, host := range vs.Spec.GetHosts() {
			at := placeOf("", host)
			if _, orphan := orphans[at]; orphan {
				delete(orphans, at)
				edit.put(at, vs, false)
			}
		}
		if len(orphans) == 0 {
			return
		}
	}
}

// replaceHost brings the services for a host up to date. It fails if rules lead to other services
// than the listener has.
func (p *scopePatch) replaceHost(host string) bool {
	was, is := p.before.of.servicesOf(host, &p.egress), p.servicesOf(host, &p.egress)
	if !p.egress.router {
		sentTo := p.destination(p.egress.namespace, host)
		if p.passesBy(sentTo) {
			return true
		}
		if sentTo != nil && !slices.Contains(is, sentTo) && (len(is) == 0 || is[0].Namespace == sentTo.Namespace) {
			return false
		}
	}
	p.listed.Gone, p.listed.Come = append(p.listed.Gone, without(was, is)...), append(p.listed.Come, without(is, was)...)
	p.differ = p.differ || !slices.Equal(was, is)
	var now *Service
	for i, s := range is {
		if i == 0 {
			now = s
		} else {
			now = now.with(s)
		}
	}
	if p.collectsMore(host, now) {
		return false
	}
	before := p.byHost.get(host)
	if before == now {
		return true
	}
	p.touch(host)
	switch {
	case before == nil:
	case len(was) > 0:
		p.head.Gone = append(p.head.Gone, before)
	default:
		p.tail = append(p.tail, before)
	}
	if now != nil {
		p.head.Come = append(p.head.Come, now)
	}
	p.byHost.put(host, now, now == nil)
	p.findRules(host)
	return true
}

// passesBy reports whether a service is a pool that no rule leads to, and none did: nobody else sees it.
func (p *scopePatch) passesBy(s *Service) bool {
	return s != nil && s.Pool != nil && p.byHost.get(s.Hostname) == nil &&
		!slices.ContainsFunc(p.egress.VirtualServices, func(vs *VirtualService) bool { return slices.Contains(vs.requestsTo, s.Hostname) })
}

// collectsMore reports whether telemetry goes to ports of a host that the listener does not have.
func (p *scopePatch) collectsMore(host string, now *Service) bool {
	return p.providers.collects(host) && slices.ContainsFunc(p.collectorsFor(p.egress.namespace), func(s *Service) bool {
		return s.Hostname == host && (now == nil || now.with(s) != now)
	})
}

// replaceRules finds the services that the rules for a host, and policies, are for.
func (p *scopePatch) replaceRules(at hostAt) {
	if !at.wildcard {
		p.findRules(at.host)
		return
	}
	for _, s := range p.before.scope.Services {
		if at.contains(s.Hostname) {
			p.findRules(s.Hostname)
		}
	}
}

func (p *scopePatch) findRules(host string) {
	var rules []*DestinationRule
	var held *BackendPolicies
	if service := p.byHost.get(host); service != nil {
		rules, held = p.rulesFor(&p.scope, service), p.api.backendPolicies(service)
	}
	if held != p.policies.get(host) {
		p.touch(host)
		p.policies.put(host, held, held == nil)
	}
	if !slices.Equal(rules, p.rules.get(host)) {
		p.touch(host)
		p.rules.put(host, rules, len(rules) == 0)
	}
}

// touch records that a host has another service, or other rules for it.
func (p *scopePatch) touch(host string) {
	p.differ, p.touched = true, append(p.touched, host)
}
