package mesh

import (
	"maps"
	"slices"
)

// changes are what differs between two catalogs.
type changes struct {
	services change[*Service]
	virtual  change[*VirtualService]
	rules    []hostAt // hosts whose rules are others

	// What scopes had in common they have in common after the changes.
	serviceLists patches[*Service]
	virtualLists patches[*VirtualService]
}

// scopeOf is what a sort of proxies sees: the scope that was last made for them where that shows the same, or what follows from it.
func (m *Mesh) scopeOf(key scopeKey) *Scope {
	before := m.memory.scopes.get(key)
	after := m.scopeAfter(key, before)
	m.memory.scopes.keep(key, rememberedScope{after, m.catalog}, m.build)
	return after
}

func (m *Mesh) scopeAfter(key scopeKey, before rememberedScope) *Scope {
	switch {
	case before.scope == nil:
		return m.catalog.buildScope(key)
	case before.of == m.catalog:
		return before.scope
	}
	if before.of.config == m.catalog.config {
		c := m.changesSince(before.of)
		if !before.scope.concernedBy(c) {
			return before.scope
		}
		if after, ok := m.catalog.patchScope(before, c); ok {
			return after
		}
	}
	if after := m.catalog.buildScope(key); !after.same(before.scope) {
		return after
	}
	return before.scope
}

// changesSince finds once for all scopes what differs.
func (m *Mesh) changesSince(before catalog) *changes {
	return m.changes.get(before, func() *changes {
		c := &changes{}
		c.services.gone, c.services.come = differenceOf(before.services, m.services, (*serviceIndex).list, compareServices)
		c.virtual.gone, c.virtual.come = differenceOf(before.virtual, m.virtual, (*virtualServiceIndex).list, compareVirtualServices)
		gone, come := differenceOf(before.rules, m.rules, (*destinationRuleIndex).list, compareRules)
		hosts := map[hostAt]bool{}
		for _, rule := range slices.Concat(gone, come) {
			hosts[rule.at] = true
		}
		c.rules = slices.Collect(maps.Keys(hosts))
		return c
	})
}

func differenceOf[X, T comparable](before, now X, list func(X) []T, compare order[T]) (gone, come []T) {
	if before == now {
		return nil, nil
	}
	return difference(list(before), list(now), compare)
}

func (x *serviceIndex) list() []*Service { return x.all }

func (x *virtualServiceIndex) list() []*VirtualService { return x.mesh }

func (x *destinationRuleIndex) list() []*DestinationRule { return x.all }

// concernedBy reports whether a scope may show anything else after the changes.
func (s *Scope) concernedBy(c *changes) bool {
	return c.many() || slices.ContainsFunc(c.services.gone, s.sees) || slices.ContainsFunc(c.services.come, s.sees) ||
		slices.ContainsFunc(c.virtual.gone, s.obeys) || slices.ContainsFunc(c.virtual.come, s.obeys) ||
		slices.ContainsFunc(c.rules, s.looksFor)
}

// sees reports whether a listener shows a service, or a rule may send traffic to it.
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

// sendsTo reports whether a rule of the listener names a host as a destination.
func (e *Egress) sendsTo(host string) bool {
	return slices.ContainsFunc(e.VirtualServices, func(vs *VirtualService) bool {
		return slices.ContainsFunc(vs.sendsTo, func(d destinationHost) bool { return d.host == host })
	})
}
