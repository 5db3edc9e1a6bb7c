package mesh

import (
	"fmt"
	"reflect"
	"slices"
)

// derivation is how a scope makes a service of others: with the ports of another, or with these ports alone.
type derivation struct {
	from, with *Service
	ports      string
}

// derive makes a service once for a scope, and takes it from the scope before if that made the same of the same: so services that did
// not change are the same in both.
func (s *Scope) derive(how derivation, before *Scope, build func() *Service) *Service {
	if known := s.derived[how]; known != nil {
		return known
	}
	var out *Service
	if before != nil {
		out = before.derived[how]
	}
	if out == nil {
		out = build()
	}
	s.derived[how] = out
	return out
}

// only limits a service to ports; none: it stays as it is.
func (s *Scope) only(service *Service, ports []uint32, before *Scope) *Service {
	kept := service.Ports
	if len(ports) > 0 {
		kept = nil
		for _, p := range service.Ports {
			if slices.Contains(ports, p.Number) {
				kept = append(kept, p)
			}
		}
	}
	if len(kept) == len(service.Ports) {
		return service
	}
	return s.derive(derivation{from: service, ports: fmt.Sprint(ports)}, before, func() *Service {
		limited := *service
		limited.Ports = kept
		return &limited
	})
}

// LooksLike reports whether a sidecar sees the same services and rules as in the mesh before, and serves the same itself.
func (m *Mesh) LooksLike(before *Mesh, p *Proxy) bool {
	return p.Type == Sidecar && m.Scope(m.Known(p)) == before.Scope(before.Known(p)) && slices.Equal(m.Targets(p), before.Targets(p)) &&
		reflect.DeepEqual(m.networks, before.networks) // whose gateways may be services that the proxy does not see
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
			return !slices.EqualFunc(s.rules[service.Hostname], other.rules[service.Hostname], (*DestinationRule).same)
		})
}

func (e *Egress) same(other *Egress) bool {
	return slices.Equal(e.Services, other.Services) && slices.Equal(e.VirtualServices, other.VirtualServices)
}

// same reports whether two rules are made of the same resource. Rules that are merged of several are never known to be.
func (d *DestinationRule) same(other *DestinationRule) bool {
	return len(d.From) == 1 && len(other.From) == 1 && d.Resource == other.Resource
}
