package mesh

// boundTo names the rules that are bound to a Gateway and that routers in a namespace obey.
type boundTo struct{ gateway, namespace string }

// boundRules are those rules, and what they were picked from.
type boundRules struct{ all, obeyed []*VirtualService }

// VirtualServicesOf lists the rules that are bound to a Gateway and that routers in a namespace
// obey. Of very many it looks only at those that have changed since a mesh was asked before.
func (m *Mesh) VirtualServicesOf(gateway, namespace string) []*VirtualService {
	of := boundTo{gateway, namespace}
	return m.bound.get(of, func() []*VirtualService {
		now := m.memory.bound.get(of).changed(m.virtual.byGateway.get(gateway), namespace)
		m.memory.bound.keep(of, now, m.build)
		return now.obeyed
	})
}

// changed returns the rules after those that they are picked from have changed.
func (b boundRules) changed(all []*VirtualService, namespace string) boundRules {
	if b.all == nil {
		return boundRules{all, obeyedIn(namespace, all)}
	}
	obeyed := func(vs *VirtualService) bool { return vs.visibility.includes(namespace) }
	x := ExchangeOf(b.all, all)
	return boundRules{all, patched(b.obeyed, those(x.Gone, obeyed), those(x.Come, obeyed), obeyedBefore(namespace))}
}
