package mesh

import (
	"maps"
	"slices"
)

// Shape identifies all of a service but its endpoints: services with the same one have the very same ports, and differ in nothing that
// listeners, routes and name tables are made of. Where clients connect to the endpoints themselves those are made of endpoints too,
// and such a service has another shape whenever it is made anew.
type Shape struct{ variants shapes }

// follow takes from the service of the same host, as its entry was before, what is the same: the ports, and the shape if all is.
func (s *Service) follow(before *Service) {
	s.Shape = &Shape{}
	if before == nil {
		return
	}
	s.Ports = keptPorts(s.Ports, before.Ports)
	if s.Resolution != ResolutionNone && s.shapedLike(before) {
		s.Ports, s.Shape = before.Ports, before.Shape
	}
}

// shapedLike compares with the service as it was before, of the same host of the same entry.
func (s *Service) shapedLike(before *Service) bool {
	return s.Resolution == before.Resolution && s.External == before.External && s.Created.Equal(before.Created) &&
		slices.Equal(s.Ports, before.Ports) && slices.Equal(s.Addresses, before.Addresses) &&
		slices.Equal(s.SubjectAltNames, before.SubjectAltNames) && slices.Equal(s.visibility, before.visibility) &&
		maps.Equal(s.Entry.Labels, before.Entry.Labels) && maps.Equal(s.Entry.Annotations, before.Entry.Annotations) &&
		s.selects() == before.selects()
}

// selects reports whether the service's workloads are found by their labels.
func (s *Service) selects() bool { return selectsWorkloads(s.Entry) }

// keptPorts puts those of before in the place of ports that are equal to them.
func keptPorts(ports, before []*Port) []*Port {
	out := slices.Clone(ports)
	for i, p := range out {
		if at := slices.IndexFunc(before, func(b *Port) bool { return *b == *p }); at >= 0 {
			out[i] = before[at]
		}
	}
	return out
}
