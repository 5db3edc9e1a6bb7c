package ads

import (
	"cmp"
	"slices"
	"sync"
)

// roster holds the open streams.
type roster struct {
	mu      sync.Mutex
	streams map[*Stream]struct{}
}

func (r *roster) enter(s *Stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams == nil {
		r.streams = map[*Stream]struct{}{}
	}
	r.streams[s] = struct{}{}
}

func (r *roster) leave(s *Stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.streams, s)
}

// Unsorted lists the open streams in any order. It is the cheaper Streams.
func (s *Server) Unsorted() []*Stream {
	s.roster.mu.Lock()
	defer s.roster.mu.Unlock()
	all := make([]*Stream, 0, len(s.roster.streams))
	for st := range s.roster.streams {
		all = append(all, st)
	}
	return all
}

// Streams lists the open streams by node, and those of one node by age, oldest first.
func (s *Server) Streams() []*Stream {
	all := s.Unsorted()
	slices.SortFunc(all, func(a, b *Stream) int {
		return cmp.Or(cmp.Compare(a.node.GetId(), b.node.GetId()), a.since.Compare(b.since))
	})
	return all
}
