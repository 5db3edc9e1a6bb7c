package mesh

import (
	"fmt"
	"slices"
	"sync"
)

// derivation is how a service is made of another: with the ports of the service of another entry, or with these ports alone.
type derivation struct {
	// with is the other's entry, and of how that service is itself derived.
	with, of string
	ports    string
}

// variants are the services that were made of one, so that all who see it see the same: the latest of each derivation.
type variants struct {
	mu   sync.Mutex
	made map[derivation]variant
}

type variant struct{ with, made *Service }

// shapes are those of the variants of services of a shape.
type shapes struct {
	mu   sync.Mutex
	made map[derivation]variantShape
}

type variantShape struct{ with, made *Shape }

// variant is a copy of the service with a change that follows from nothing but the derivation and the other service, which may be nil.
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
	})
}

// only limits a service to ports; none: it stays as it is.
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
