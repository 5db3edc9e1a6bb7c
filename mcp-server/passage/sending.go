package passage

import (
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/pgmesh/pgmesh/internal/tracing"
	"github.com/pgmesh/pgmesh/mcp-server/clients"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// sending is what is known of what a client is sent. A client that asks for the ends of batches
// takes a revision as one, and any other takes each type by itself.
type sending struct {
	types   map[string]*progress // none for a client of batches
	batches *progress
}

// progress is how far a client has come with batches, or with one type.
type progress struct {
	began    bool // whether anything was accepted: what a client begins with is no change
	accepted int64
	sent     int64
	since    time.Time // when the first message of what was sent last went out
	refused  []tracing.Event
}

// mostTypes is more than there are kinds.
const mostTypes = 200

// mostRefused bounds how many refusals are told of.
const mostRefused = 20

// Sent implements [clients.Follower].
func (r *Recorder) Sent(c *clients.Client, typeURL string, revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sending[c]
	if s == nil {
		s = &sending{types: map[string]*progress{}, batches: &progress{}}
		r.sending[c] = s
	}
	s.batches.send(revision)
	if typeURL == mcpv1.BatchTypeURL {
		s.types = nil
	}
	if s.types == nil {
		return
	}
	p := s.types[typeURL]
	if p == nil && len(s.types) < mostTypes {
		p = &progress{}
		s.types[typeURL] = p
	}
	p.send(revision)
}

func (p *progress) send(revision int64) {
	if p != nil && revision > p.sent {
		p.sent, p.since, p.refused = revision, time.Now(), nil
	}
}

// Accepted implements [clients.Follower].
func (r *Recorder) Accepted(c *clients.Client, typeURL string, revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch s := r.sending[c]; {
	case s == nil:
	case typeURL == mcpv1.BatchTypeURL:
		r.taken(c, s.batches, revision)
	case s.types[typeURL] != nil:
		r.taken(c, s.types[typeURL], revision, attribute.String(tracing.TypeKey, typeURL))
	}
}

// taken records that a client has taken a revision, after the one that it had.
func (r *Recorder) taken(c *clients.Client, p *progress, revision int64, about ...attribute.KeyValue) {
	began, before := p.began, p.accepted
	p.began, p.accepted = true, revision
	if !began || revision <= before || revision != p.sent {
		return
	}
	r.tracer.RecordMerged(r.mesh(), before, revision, tracing.Span{
		Name: "send", Began: p.since, Ended: time.Now(), Events: p.refused,
		Attributes: append(about, attribute.String(tracing.ClientKey, c.Node()), attribute.String(tracing.ProtocolKey, c.Protocol())),
	})
}

// Refused implements [clients.Follower]. A client of batches applies the rest, and then accepts the
// batch.
func (r *Recorder) Refused(c *clients.Client, typeURL string, revision int64, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sending[c]
	if s == nil {
		return
	}
	if s.types == nil {
		s.batches.refuse(typeURL, reason)
		return
	}
	p := s.types[typeURL]
	if p == nil || !p.began || revision <= p.accepted || revision != p.sent {
		return
	}
	r.tracer.Of(r.mesh(), revision).Record(tracing.Span{
		Name: "send", Began: p.since, Ended: time.Now(), Failure: reason,
		Attributes: []attribute.KeyValue{attribute.String(tracing.TypeKey, typeURL), attribute.String(tracing.ClientKey, c.Node()), attribute.String(tracing.ProtocolKey, c.Protocol())},
	})
}

func (p *progress) refuse(typeURL, reason string) {
	if len(p.refused) < mostRefused {
		p.refused = append(p.refused, tracing.Event{Name: "refused", At: time.Now(), Attributes: []attribute.KeyValue{
			attribute.String(tracing.TypeKey, typeURL), attribute.String(tracing.ReasonKey, reason),
		}})
	}
}

// Left implements [clients.Follower].
func (r *Recorder) Left(c *clients.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sending, c)
}
