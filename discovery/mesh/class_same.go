package mesh

import "slices"

// SortsLike reports whether every proxy of which FindsLike is true is of the class, and configured, as in the mesh before.
func (m *Mesh) SortsLike(before *Mesh) bool {
	return m.Surroundings() == before.Surroundings() && !m.resorted(before) &&
		slices.Equal(m.selected, before.selected) && slices.Equal(m.routerLabels, before.routerLabels) && m.policies.sortsLike(before.policies) &&
		slices.Equal(m.tokens.chooses, before.tokens.chooses)
}

// FindsLike reports whether at the addresses of a proxy there is what there was in the mesh before.
func (m *Mesh) FindsLike(before *Mesh, p *Proxy) bool {
	c := m.changesSince(before.build)
	return c != nil && !slices.ContainsFunc(p.Addresses, func(ip string) bool { return c.addresses()[ip] })
}
