package mesh

import "slices"

// LooksLike reports whether a sidecar sees the same services and rules as in the mesh before, and serves the same itself.
func (m *Mesh) LooksLike(before *Mesh, p *Proxy) bool {
	return p.Type == Sidecar && m.Scope(m.Known(p)) == before.Scope(before.Known(p)) && slices.Equal(m.Targets(p), before.Targets(p)) &&
		m.networks == before.networks // whose gateways may be services that the proxy does not see
}

// SeesServicesOf reports whether a proxy sees the very services that it saw in the mesh before. The routes that a Sidecar lets it see
// decide that, too: those that they lead to.
func (m *Mesh) SeesServicesOf(before *Mesh, p *Proxy) bool {
	return slices.Equal(m.Scope(m.Known(p)).Services, before.Scope(before.Known(p)).Services)
}

// same reports whether two scopes show the same, by the identity of what they hold.
func (s *Scope) same(other *Scope) bool {
	return s.Namespace == other.Namespace && s.Sidecar == other.Sidecar && s.config == other.config &&
		slices.Equal(s.Services, other.Services) && slices.EqualFunc(s.Egress, other.Egress, (*Egress).same) &&
		!slices.ContainsFunc(s.Services, func(service *Service) bool {
			return !slices.Equal(s.rules.get(service.Hostname), other.rules.get(service.Hostname))
		})
}

func (e *Egress) same(other *Egress) bool {
	return slices.Equal(e.Services, other.Services) && slices.Equal(e.VirtualServices, other.VirtualServices)
}

// SameRules reports whether two scopes have the very same DestinationRules. It may say false of such.
func (s *Scope) SameRules(other *Scope) bool { return s.rules.is(&other.rules) }
