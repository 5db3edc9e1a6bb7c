package mesh

import (
	"maps"
	"slices"
)

// Shape stands for all of a service but its endpoints. Services with the same shape have the very
// same ports, and give the same listeners, routes and name tables. If clients connect to single
// endpoints, those depend on endpoints too, and the service gets a new shape each time it is made.
type Shape struct{ variants shapes }

// follow reuses what is the same in the service of the same host before its entry changed: its
// ports, and its shape if all of it is.
func (s *Service) follow(before *Service) {
	s.Shape = &Shape{}
	if before == nil {
		return
	}
	s.Ports, s.Datagrams = keptPorts(s.Ports, before.Ports), keptPorts(s.Datagrams, before.Datagrams)
	if s.Resolution != ResolutionNone && s.shapedLike(before) {
		s.Ports, s.Datagrams, s.Shape = before.Ports, before.Datagrams, before.Shape
	}
}

// shapedLike reports whether the service has the shape of the one before, which is for the same
// host of the same entry.
func (s *Service) shapedLike(before *Service) bool {
	return s.Resolution == before.Resolution && s.External == before.External && s.Created.Equal(before.Created) &&
		slices.Equal(s.Ports, before.Ports) && slices.Equal(s.Datagrams, before.Datagrams) && slices.Equal(s.Addresses, before.Addresses) &&
		slices.Equal(s.SubjectAltNames, before.SubjectAltNames) && slices.Equal(s.visibility, before.visibility) &&
		maps.Equal(s.Entry.Labels, before.Entry.Labels) && maps.Equal(s.Entry.Annotations, before.Entry.Annotations) &&
		s.selects() == before.selects() && s.Pool.Same(before.Pool)
}

// selects reports whether the service finds its workloads by labels.
func (s *Service) selects() bool { return selectsWorkloads(s.Entry) }

// keptPorts replaces ports by equal ones of before.
func keptPorts(ports, before []*Port) []*Port {
	out := slices.Clone(ports)
	for i, p := range out {
		if at := slices.IndexFunc(before, func(b *Port) bool { return *b == *p }); at >= 0 {
			out[i] = before[at]
		}
	}
	return out
}
