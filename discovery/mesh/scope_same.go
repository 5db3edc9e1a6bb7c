package mesh

import "slices"

// same reports whether two scopes show the same. It compares pointers.
func (s *Scope) same(other *Scope) bool {
	return s.Namespace == other.Namespace && s.Sidecar == other.Sidecar && s.config == other.config &&
		slices.Equal(s.Services, other.Services) && slices.EqualFunc(s.Egress, other.Egress, (*Egress).same) &&
		!slices.ContainsFunc(s.Services, func(service *Service) bool {
			return !slices.Equal(s.rules.get(service.Hostname), other.rules.get(service.Hostname)) ||
				s.policies.get(service.Hostname) != other.policies.get(service.Hostname)
		})
}

func (e *Egress) same(other *Egress) bool {
	return slices.Equal(e.Services, other.Services) && slices.Equal(e.VirtualServices, other.VirtualServices)
}
