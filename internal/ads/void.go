package ads

import "github.com/pgmesh/pgmesh/internal/ads/served"

// A state-of-the-world response about named resources cannot say that one of them does not exist.
// Envoy waits for the endpoints of each cluster that it was sent, and when it starts, with everything
// else. If the cluster has gone meanwhile, these endpoints never come. So the client is sent an empty
// resource in their place. Of what nothing refers to that the stream has sent, it may have something
// from before, and keeps that.

// voids returns what stands for absent resources that the client waits for.
func (s *Stream) voids(sub *subscription, absent []string) (all []*served.Resource) {
	if s.cfg.Void == nil || len(absent) == 0 || !s.piecemeal(sub) {
		return nil
	}
	awaited := s.referredTo(sub.canonical)
	for _, name := range absent {
		if !awaited[name] {
			continue
		}
		if r := s.cfg.Void(sub.canonical, name); r != nil {
			all = append(all, r)
		}
	}
	return all
}

// referredTo returns the names of a type to which anything refers that the client has.
func (s *Stream) referredTo(canonical string) map[string]bool {
	names := map[string]bool{}
	for _, sub := range s.subs {
		for r := range sub.have.All() {
			for _, ref := range r.Refs {
				if ref.TypeURL == canonical {
					names[ref.Name] = true
				}
			}
		}
	}
	return names
}
