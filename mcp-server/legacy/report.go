package legacy

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/terse"
)

// Stream is what an operator may want to know of a stream.
type Stream struct {
	Service     string       `json:"service"`
	Peer        string       `json:"peer"`
	Sink        string       `json:"sink"` // what the sink calls itself
	Since       time.Time    `json:"since"`
	Collections []Collection `json:"collections"`
}

// Collection is how far a stream has come with a collection.
type Collection struct {
	Name          string `json:"name"`
	Sent          string `json:"sent,omitempty"`           // the version that was sent last
	Acked         string `json:"acked,omitempty"`          // the version that the sink accepted last
	Refusal       string `json:"refusal,omitempty"`        // why it refused what was sent last
	WithheldBytes int    `json:"withheld_bytes,omitempty"` // the size of what it could not be sent
}

// report is a Stream that is being written.
type report struct {
	mu          sync.Mutex
	stream      Stream
	collections map[string]*Collection
}

// How much is kept of what a sink says.
const (
	longestSink   = 256
	longestReason = 1024
)

// introduced notes what a sink calls itself, which it need not in every request, and returns what to call it.
func (r *report) introduced(sink string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stream.Sink = cmp.Or(terse.Kept(sink, longestSink), r.stream.Sink)
	return cmp.Or(r.stream.Sink, r.stream.Peer)
}

// on changes what is known of a collection.
func (r *report) on(w *watch, change func(*Collection)) {
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

func (r *report) sent(w *watch, version string) {
	r.on(w, func(c *Collection) { c.Sent = version })
}

func (r *report) acked(w *watch, version string) {
	r.on(w, func(c *Collection) { c.Acked, c.Refusal = version, "" })
}

func (r *report) refused(w *watch, reason string) {
	r.on(w, func(c *Collection) { c.Refusal = terse.Kept(reason, longestReason) })
}

func (r *report) withheld(w *watch, size int) {
	r.on(w, func(c *Collection) { c.WithheldBytes = size })
}

func (r *report) read() Stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stream
	for _, name := range slices.Sorted(maps.Keys(r.collections)) {
		s.Collections = append(s.Collections, *r.collections[name])
	}
	return s
}

// reports are those of all streams that are open.
type reports struct {
	mu   sync.Mutex
	open map[*report]struct{}
}

func (r *reports) begin(service, peer string) *report {
	one := &report{stream: Stream{Service: service, Peer: peer, Since: time.Now()}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = map[*report]struct{}{}
	}
	r.open[one] = struct{}{}
	return one
}

func (r *reports) end(one *report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, one)
}

// read lists the streams by the time at which they were opened.
func (r *reports) read() []Stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	streams := []Stream{}
	for one := range r.open {
		streams = append(streams, one.read())
	}
	slices.SortFunc(streams, func(a, b Stream) int { return a.Since.Compare(b.Since) })
	return streams
}
