package ads

import "github.com/pgmesh/pgmesh/internal/ads/wire"

// A request, and what is made of it, counts against a memory budget until the client is answered:
// once it has been updated to the target, what it said it has is forgotten.

// holdMemory keeps the memory of a processed request reserved.
func (s *Stream) holdMemory(r *wire.Request) {
	if r.Release == nil {
		return
	}
	sub := s.subscription(r.TypeURL)
	if sub == nil { // the request was refused, which ends the stream
		r.Release()
		return
	}
	before, release := sub.memory, r.Release // so that the closure does not keep the request
	sub.memory = func() {
		if before != nil {
			before()
		}
		release()
	}
}

// releaseMemory releases the memory of the requests for a type.
func (s *subscription) releaseMemory() {
	if s.memory != nil {
		s.memory()
		s.memory = nil
	}
}

// releaseMemory releases the memory of requests that need no response any more, or of all.
func (s *Stream) releaseMemory(all bool) {
	for _, sub := range s.subs {
		if all || s.target != nil && sub.pending == "" {
			sub.releaseMemory()
		}
	}
}
