package legacy

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/terse"
)

// Stream is the state of one stream, for operators.
type Stream struct {
	Service     string       `json:"service"`
	Peer        string       `json:"peer"`
	Sink        string       `json:"sink"` // the name that the sink gave itself
	Since       time.Time    `json:"since"`
	Collections []Collection `json:"collections"`
}

// Collection is the state of one collection on a stream.
type Collection struct {
	Name          string `json:"name"`
	Sent          string `json:"sent,omitempty"`           // the version that was sent last
	Acked         string `json:"acked,omitempty"`          // the version that the sink accepted last
	Refusal       string `json:"refusal,omitempty"`        // why it refused what was sent last
	WithheldBytes int    `json:"withheld_bytes,omitempty"` // the size of what it could not be sent
}

// streamReport is a Stream under construction.
type streamReport struct {
	mu          sync.Mutex
	stream      Stream
	collections map[string]*Collection
}

// Bounds on what is kept of a sink's own words.
const (
	maxSinkBytes   = 256
	maxReasonBytes = 1024
)

// setSink records the sink's name for itself, if this request has it, and returns the name to use:
// that, or the peer.
func (r *streamReport) setSink(sink string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stream.Sink = cmp.Or(terse.Kept(sink, maxSinkBytes), r.stream.Sink)
	return cmp.Or(r.stream.Sink, r.stream.Peer)
}

// update changes the state of a collection.
func (r *streamReport) update(w *watch, change func(*Collection)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.collections == nil {
		r.collections = map[string]*Collection{}
	}
	if r.collections[w.name] == nil {
		r.collections[w.name] = &Collection{Name: w.name}
	}
	change(r.collections[w.name])
}

func (r *streamReport) sent(w *watch, version string) {
	r.update(w, func(c *Collection) { c.Sent = version })
}

func (r *streamReport) acked(w *watch, version string) {
	r.update(w, func(c *Collection) { c.Acked, c.Refusal = version, "" })
}

func (r *streamReport) refused(w *watch, reason string) {
	r.update(w, func(c *Collection) { c.Refusal = terse.Kept(reason, maxReasonBytes) })
}

func (r *streamReport) withheld(w *watch, size int) {
	r.update(w, func(c *Collection) { c.WithheldBytes = size })
}

func (r *streamReport) read() Stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stream
	for _, name := range slices.Sorted(maps.Keys(r.collections)) {
		s.Collections = append(s.Collections, *r.collections[name])
	}
	return s
}

// openStreams are the reports of all open streams.
type openStreams struct {
	mu      sync.Mutex
	reports map[*streamReport]struct{}
}

func (r *openStreams) begin(service, peer string) *streamReport {
	one := &streamReport{stream: Stream{Service: service, Peer: peer, Since: time.Now()}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reports == nil {
		r.reports = map[*streamReport]struct{}{}
	}
	r.reports[one] = struct{}{}
	return one
}

func (r *openStreams) end(one *streamReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reports, one)
}

// read lists the streams, sorted by when they were opened.
func (r *openStreams) read() []Stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	streams := []Stream{}
	for one := range r.reports {
		streams = append(streams, one.read())
	}
	slices.SortFunc(streams, func(a, b Stream) int { return a.Since.Compare(b.Since) })
	return streams
}
