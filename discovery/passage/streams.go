package passage

import (
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/tracing"
)

// streams observes the streams of proxies for a recorder.
type streams struct{ *Recorder }

var _ ads.Observer = streams{}

// Observer is told of the streams of proxies.
func (r *Recorder) Observer() ads.Observer { return streams{r} }

// unnamed are the streams that came before the mesh was known. Their agents are told with the first
// message.
type unnamed map[*ads.Stream]bool

// Opened tells the agent at the other end which mesh's revisions it passes on.
func (r streams) Opened(s *ads.Stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.name(s) {
		r.unnamed[s] = true
	}
}

// Sent is Opened for a stream that came before the mesh was known.
func (r streams) Sent(s *ads.Stream, _ ads.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unnamed[s] {
		r.name(s)
		delete(r.unnamed, s)
	}
}

func (r *Recorder) name(s *ads.Stream) bool {
	mesh := r.mesh()
	if mesh == "" {
		return false
	}
	_ = grpc.SetHeader(s.Context(), metadata.Pairs(tracing.MeshHeader, mesh, tracing.ParentHeader, r.seed)) // without it the agent records nothing
	return true
}

// Closed forgets a stream.
func (r streams) Closed(s *ads.Stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.unnamed, s)
}

// Nacked notes that a proxy refuses something of what it was offered last.
func (r streams) Nacked(s *ads.Stream, v ads.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range slices.Backward(r.rollOuts) {
		if _, waits := o.waiting[s.Subscriber()]; !waits {
			continue
		}
		o.refusals++
		o.waiting[s.Subscriber()] = true
		if len(o.events) < mostRefusals {
			o.events = append(o.events, tracing.Event{Name: "refused", At: time.Now(), Attributes: []attribute.KeyValue{
				attribute.String(tracing.ProxyKey, s.Node().GetId()), attribute.String(tracing.TypeKey, v.TypeURL), attribute.String(tracing.ReasonKey, v.Reason),
			}})
		}
		r.endIfSettled(o)
		return
	}
}

// The other events of [ads.Observer] say nothing that is recorded here. That a proxy runs something
// comes by [push.Watcher].

// Acked does nothing.
func (streams) Acked(*ads.Stream, ads.Verdict) {}

// Refusing does nothing.
func (streams) Refusing(*ads.Stream, string, int) {}

// Limited does nothing.
func (streams) Limited(string, time.Duration, bool) {}

// Unreceived does nothing.
func (streams) Unreceived(*ads.Stream, string, int) {}
