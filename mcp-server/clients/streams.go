package clients

import (
	"time"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Opened adds a stream.
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

// Closed removes a stream.
func (r *Roll) Closed(s *ads.Stream) {
	r.of(s).Leave()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.streams, s)
}

// Sent records a response.
func (r *Roll) Sent(s *ads.Stream, m ads.Message) {
	r.of(s).Sent(m.TypeURL, m.Revision)
}

// Acked records an acceptance.
func (r *Roll) Acked(s *ads.Stream, v ads.Verdict) { r.of(s).Accepted(v.TypeURL, v.Revision) }

// Nacked records a refusal.
func (r *Roll) Nacked(s *ads.Stream, v ads.Verdict) {
	r.of(s).Refused(v.TypeURL, v.Revision, v.Reason)
}

// Refusing does nothing: MCP clients apply what they can of a response, and name the rest.
func (r *Roll) Refusing(*ads.Stream, string, int) {}

// Ran does nothing.
func (r *Roll) Ran(*ads.Stream, *served.Snapshot) {}

// Limited does nothing: the roll does not track limits.
func (r *Roll) Limited(string, time.Duration, bool) {}

// Unreceived does nothing: the roll does not track it.
func (r *Roll) Unreceived(*ads.Stream, string, int) {}

func (r *Roll) of(s *ads.Stream) *Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.streams[s]
}
