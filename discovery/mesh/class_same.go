package mesh

import "slices"

// SortsLike reports whether every proxy for which FindsLike is true has the class, and the
// configuration, that it had in the mesh before.
func (m *Mesh) SortsLike(before *Mesh) bool {
	return m.Surroundings() == before.Surroundings() && !m.resorted(before) &&
		slices.Equal(m.selected, before.selected) && slices.Equal(m.routerLabels, before.routerLabels) && slices.Equal(m.gateways.addresses, before.gateways.addresses) && m.policies.sortsLike(before.policies) &&
		slices.Equal(m.tokens.chooses, before.tokens.chooses) && m.telemetries.sortsLike(before.telemetries) && m.extensions.sortsLike(before.extensions)
}

// FindsLike reports whether the same is served at the addresses of a proxy as in the mesh before.
func (m *Mesh) FindsLike(before *Mesh, p *Proxy) bool {
	c := m.changesSince(before.build)
	return c != nil && !slices.ContainsFunc(p.Addresses, func(ip string) bool { return c.addresses()[ip] })
}
