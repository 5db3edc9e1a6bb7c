package mesh

import (
	"fmt"
	"slices"
	"sync"
)

// derivation says how a service is made from another: with the ports of another entry's service, or
// with only some ports.
type derivation struct {
	// with is the other service's entry, and of is how that service is itself derived.
	with, of string
	ports    string
}

// variants caches the services that were made from one, so that all who see one see the same. It
// has the latest of each derivation.
type variants struct {
	mu   sync.Mutex
	made map[derivation]variant
}

type variant struct{ with, made *Service }

// shapes caches the shapes of variants.
type shapes struct {
	mu   sync.Mutex
	made map[derivation]variantShape
}

type variantShape struct{ with, made *Shape }

// variant returns a copy of the service with a change. The change must depend on nothing but the
// derivation and the other service, which may be nil.
func (s *Service) variant(how derivation, with *Service, change func(*Service)) *Service {
	s.variants.mu.Lock()
	defer s.variants.mu.Unlock()
	if known, ok := s.variants.made[how]; ok && known.with == with {
		return known.made
	}
	out := s.copied()
	change(out)
	out.derivation = fmt.Sprint(s.derivation, how)
	var withShape *Shape
	if with != nil {
		withShape = with.Shape
	}
	out.Shape = s.Shape.variant(how, withShape)
	if s.variants.made == nil {
		s.variants.made = map[derivation]variant{}
	}
	s.variants.made[how] = variant{with, out}
	return out
}

// variant returns the shape of a variant. It is the same as long as both shapes that it is made
// from are.
func (s *Shape) variant(how derivation, with *Shape) *Shape {
	s.variants.mu.Lock()
	defer s.variants.mu.Unlock()
	if known, ok := s.variants.made[how]; ok && known.with == with {
		return known.made
	}
	if s.variants.made == nil {
		s.variants.made = map[derivation]variantShape{}
	}
	out := &Shape{}
	s.variants.made[how] = variantShape{with, out}
	return out
}

// withPorts returns the service with the ports of other that it lacks.
func (s *Service) withPorts(other *Service) *Service {
	return s.variant(derivation{with: other.Entry.Name, of: other.derivation}, other, func(merged *Service) {
		merged.Ports = slices.Clone(s.Ports)
		for _, p := range other.Ports {
			if s.Port(p.Number) == nil {
				merged.Ports = append(merged.Ports, p)
			}
		}
		merged.Datagrams = slices.Clone(s.Datagrams)
		for _, p := range other.Datagrams {
			if s.Datagram(p.Number) == nil {
				merged.Datagrams = append(merged.Datagrams, p)
			}
		}
	})
}

// only limits a service to some ports. With none it is unlimited.
func (s *Service) only(ports []uint32) *Service {
	kept := s.Ports
	if len(ports) > 0 {
		kept = nil
		for _, p := range s.Ports {
			if slices.Contains(ports, p.Number) {
				kept = append(kept, p)
			}
		}
	}
	if len(kept) == len(s.Ports) {
		return s
	}
	return s.variant(derivation{ports: fmt.Sprint(ports)}, nil, func(limited *Service) { limited.Ports = kept })
}
