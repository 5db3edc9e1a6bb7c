package mesh

import "slices"

// ScopeChange is the difference between a scope and an earlier one for the same proxies.
type ScopeChange struct {
	// Hosts lists the hosts whose service, or whose rules, differ. A host may be in it twice.
	Hosts []string
	// Egress has one entry for each listener of the scope.
	Egress []EgressChange
}

// EgressChange is the difference of one listener.
type EgressChange struct {
	Services        Exchange[*Service]
	VirtualServices Exchange[*VirtualService]
}

// Reshaped returns the services that have come to the listener. It leaves out those that took the
// place of one with the same shape. It reports false if a service has gone and none took its place.
func (c *EgressChange) Reshaped() (come []*Service, ok bool) {
	if len(c.Services.Gone) == 0 {
		return c.Services.Come, true
	}
	were := make(map[*Shape]*Service, len(c.Services.Gone))
	for _, s := range c.Services.Gone {
		were[s.Shape] = s
	}
	for _, s := range c.Services.Come {
		if was := were[s.Shape]; was != nil && compareShown(was, s) == 0 {
			delete(were, s.Shape)
		} else {
			come = append(come, s)
		}
	}
	return come, len(were) == 0
}

// Since returns the difference from an earlier scope for the same proxies. A scope that was patched
// knows the difference from the one before; otherwise the two are compared.
func (s *Scope) Since(before *Scope) *ScopeChange {
	switch {
	case s == before:
		return &ScopeChange{Egress: make([]EgressChange, len(s.Egress))}
	case s.change != nil && s.follows == before.build:
		return s.change
	default:
		return compareScopes(before, s)
	}
}

// compareScopes finds the difference between two scopes for the same proxies.
func compareScopes(before, now *Scope) *ScopeChange {
	c := &ScopeChange{Egress: make([]EgressChange, len(now.Egress))}
	for _, s := range before.Services {
		if now.byHost.get(s.Hostname) == nil {
			c.Hosts = append(c.Hosts, s.Hostname)
		}
	}
	for _, s := range now.Services {
		if before.byHost.get(s.Hostname) != s || !slices.Equal(before.rules.get(s.Hostname), now.rules.get(s.Hostname)) ||
			before.policies.get(s.Hostname) != now.policies.get(s.Hostname) {
			c.Hosts = append(c.Hosts, s.Hostname)
		}
	}
	for i, e := range now.Egress {
		c.Egress[i] = EgressChange{ExchangeOf(before.Egress[i].Services, e.Services), ExchangeOf(before.Egress[i].VirtualServices, e.VirtualServices)}
	}
	return c
}

// scopeOf returns the scope for a key: the last one that was made for it, if that still shows the
// same, or what follows from it.
func (m *Mesh) scopeOf(key scopeKey) *Scope {
	before := m.memory.scopes.get(key)
	after := m.scopeAfter(key, before)
	m.memory.scopes.keep(key, rememberedScope{after, m.catalog, m.build}, m.build)
	return after
}

// scopeAfter tries the cheap ways first: the scope before as it is, then with a patch, and only
// then one built from nothing.
func (m *Mesh) scopeAfter(key scopeKey, before rememberedScope) *Scope {
	if before.scope == nil {
		return m.newScope(key)
	}
	if c := m.changesSince(before.asked); c != nil && !c.config && !before.scope.collectsAnew(c, before.of.providers, m.providers) {
		if !before.scope.concernedBy(c) {
			return before.scope
		}
		if after, ok := m.patchScope(before, c); ok {
			return after
		}
	}
	if after := m.newScope(key); !after.same(before.scope) {
		return after
	}
	return before.scope
}

// collectsAnew reports whether the changes are about services that are in the scope, or may be, for
// telemetry alone.
func (s *Scope) collectsAnew(c *changes, was, is *providerIndex) bool {
	if len(was.collectors)+len(is.collectors) == 0 {
		return false
	}
	hidden := func(service *Service) bool {
		return (was.collects(service.Hostname) || is.collects(service.Hostname)) &&
			!slices.ContainsFunc(s.Egress, func(e *Egress) bool { return e.shows(service) })
	}
	return slices.ContainsFunc(c.services.Gone, hidden) || slices.ContainsFunc(c.services.Come, hidden)
}

// newScope builds a scope from nothing.
func (m *Mesh) newScope(key scopeKey) *Scope {
	s := m.catalog.buildScope(key)
	s.build = m.build
	return s
}

// concernedBy reports whether the changes may make a difference to the scope.
func (s *Scope) concernedBy(c *changes) bool {
	return c.many() || slices.ContainsFunc(c.services.Gone, s.sees) || slices.ContainsFunc(c.services.Come, s.sees) ||
		slices.ContainsFunc(c.virtual.Gone, s.obeys) || slices.ContainsFunc(c.virtual.Come, s.obeys) ||
		slices.ContainsFunc(c.rules, s.looksFor)
}

// sees reports whether a listener shows the service, or a rule may send traffic to it.
func (s *Scope) sees(service *Service) bool {
	if _, known := s.byHost.find(service.Hostname); known {
		return true
	}
	return slices.ContainsFunc(s.Egress, func(e *Egress) bool { return e.shows(service) || e.sendsTo(service.Hostname) })
}

func (s *Scope) obeys(vs *VirtualService) bool {
	return slices.ContainsFunc(s.Egress, func(e *Egress) bool { return e.obeys(vs) })
}

// looksFor reports whether the rules for a host may be for a service of the scope.
func (s *Scope) looksFor(at hostAt) bool {
	general := at.namespace == s.Namespace || at.namespace == s.config.GetRootNamespace()
	if at.wildcard {
		return slices.ContainsFunc(s.Services, func(service *Service) bool {
			return (general || service.Namespace == at.namespace) && at.contains(service.Hostname)
		})
	}
	service, known := s.byHost.find(at.host)
	return known && (general || service.Namespace == at.namespace)
}

// sendsTo reports whether a rule of the listener names the host as a destination.
func (e *Egress) sendsTo(host string) bool {
	return slices.ContainsFunc(e.VirtualServices, func(vs *VirtualService) bool {
		return slices.ContainsFunc(vs.sendsTo, func(d destinationHost) bool { return d.host == host })
	})
}
