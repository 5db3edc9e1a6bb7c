// Package passage records how a revision passes through an agent, for its trace: from when discovery
// sent a response until Envoy has answered it.
package passage

import (
	"maps"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/grpc/metadata"

	"github.com/pgmesh/pgmesh/internal/tracing"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/wire"
)

// Recorder records passages. A nil one records nothing.
type Recorder struct {
	tracer *tracing.Tracer
	proxy  string
}

// New returns a recorder for the Envoy of this machine; nil without a tracer.
func New(t *tracing.Tracer, proxy string) *Recorder {
	if t == nil {
		return nil
	}
	return &Recorder{t, proxy}
}

const (
	// mostWaiting bounds the responses that wait for Envoy's answer.
	mostWaiting = 64
	// atOnce is how long after its first response a revision is still on its way. What is sent later
	// is asked for by Envoy, and no part of the change.
	atOnce = time.Minute
)

// Stream records what one stream of discovery's brings. A nil one records nothing.
type Stream struct {
	recorder *Recorder
	mesh     string
	key      string // of the span that everything is a part of

	mu      sync.Mutex
	started bool
	newest  int64     // the newest revision that came
	first   bool      // it is the first: everything that Envoy begins with, and no change
	since   time.Time // when it came
	waiting map[string]response
}

// response is one that Envoy has not answered.
type response struct {
	change     *tracing.Trace
	at         time.Time
	attributes []attribute.KeyValue
}

// Stream returns what records a stream, by what discovery said when it began; nil if discovery
// traces nothing.
func (r *Recorder) Stream(header func() (metadata.MD, error)) *Stream {
	if r == nil {
		return nil
	}
	said, err := header()
	mesh, key := said.Get(tracing.MeshHeader), said.Get(tracing.ParentHeader)
	if err != nil || len(mesh) != 1 || len(key) != 1 {
		return nil
	}
	return &Stream{recorder: r, mesh: mesh[0], key: key[0], waiting: map[string]response{}}
}

// Response notes a response that goes to Envoy.
func (s *Stream) Response(r *wire.Response) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	revision, err := strconv.ParseInt(r.Version, 10, 64)
	if err != nil || !s.onItsWay(revision) || len(s.waiting) == mostWaiting {
		return
	}
	change := s.recorder.tracer.Of(s.mesh, revision)
	if change == nil {
		return
	}
	s.waiting[r.Nonce] = response{change, time.Now(), []attribute.KeyValue{
		attribute.String(tracing.TypeKey, r.TypeURL), attribute.Int(tracing.ResourcesKey, len(r.Resources)), attribute.Int(tracing.RemovedKey, len(r.Removed)),
	}}
}

// onItsWay reports whether a response is a part of a change of its revision.
func (s *Stream) onItsWay(revision int64) bool {
	if !s.started || revision > s.newest {
		s.first, s.started, s.newest, s.since = !s.started, true, revision, time.Now()
		maps.DeleteFunc(s.waiting, func(_ string, w response) bool { return s.since.Sub(w.at) > atOnce }) // they were overtaken
	}
	return !s.first && revision == s.newest && time.Since(s.since) < atOnce
}

// Request notes a request of Envoy's, which may be an answer.
func (s *Stream) Request(r *wire.Request) {
	if s == nil || r.Nonce == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w, waits := s.waiting[r.Nonce]
	if !waits {
		return
	}
	delete(s.waiting, r.Nonce)
	span := tracing.Span{
		Name: "relay", Parent: w.change.SpanID(s.key), Began: w.at, Ended: time.Now(),
		Attributes: append(w.attributes, attribute.String(tracing.ProxyKey, s.recorder.proxy)),
	}
	if r.Refused {
		span.Failure = r.Reason
	}
	w.change.Record(span)
}
