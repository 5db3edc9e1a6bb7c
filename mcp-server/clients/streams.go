package clients

import (
	"time"

	"github.com/pgmesh/pgmesh/internal/ads"
)

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
func (r *Roll) Sent(s *ads.Stream, m ads.Message) {
	r.of(s).Sent(m.TypeURL, m.Revision)
}

// Acked notes an acceptance.
func (r *Roll) Acked(s *ads.Stream, v ads.Verdict) { r.of(s).Accepted(v.TypeURL, v.Revision) }

// Nacked notes a refusal.
func (r *Roll) Nacked(s *ads.Stream, v ads.Verdict) {
	r.of(s).Refused(v.TypeURL, v.Revision, v.Reason)
}

// Refusing is nothing that a roll has: clients of MCP take what they can of a response, and name the rest.
func (r *Roll) Refusing(*ads.Stream, string, int) {}

// Limited is nothing that a roll has.
func (r *Roll) Limited(string, time.Duration, bool) {}

// Unreceived is nothing that a roll has.
func (r *Roll) Unreceived(*ads.Stream, string, int) {}

func (r *Roll) of(s *ads.Stream) *Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.streams[s]
}
