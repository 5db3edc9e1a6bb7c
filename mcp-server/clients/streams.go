package clients

import "github.com/pgmesh/pgmesh/internal/ads"

// Opened puts a stream on the roll.
func (r *Roll) Opened(s *ads.Stream) {
	protocol := "sotw"
	if s.Incremental() {
		protocol = "delta"
	}
	c := r.Join(s.Node().GetId(), protocol)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams[s] = c
}

// Closed takes a stream off the roll.
func (r *Roll) Closed(s *ads.Stream) {
	r.of(s).Leave()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.streams, s)
}

// Sent notes a response.
func (r *Roll) Sent(s *ads.Stream, typeURL, revision string, _, _ int) {
	r.of(s).Sent(typeURL, revision)
}

// Acked notes an acceptance.
func (r *Roll) Acked(s *ads.Stream, typeURL, revision string) { r.of(s).Accepted(typeURL, revision) }

// Nacked notes a refusal.
func (r *Roll) Nacked(s *ads.Stream, typeURL, revision, reason string) {
	r.of(s).Refused(typeURL, revision, reason)
}

// Unreceived is nothing that a roll has.
func (r *Roll) Unreceived(*ads.Stream, string, int) {}

func (r *Roll) of(s *ads.Stream) *Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.streams[s]
}
