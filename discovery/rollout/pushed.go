package rollout

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// pushed is a push: how many proxies there was something new for, and how many run it.
type pushed struct {
	revision, after int64
	begun           time.Time
	parts           map[string]*part // by namespace
	differs         bool             // from what was reported
	forgotten       bool             // it is remembered no more
}

// part is a push in a namespace.
type part struct {
	concerned, refused, away uint32
	took                     []uint32 // microseconds, in order
}

const (
	// mostPoints is how many times a part reports.
	mostPoints = 32
	// mostRollouts bounds a message, as the protocol does.
	mostRollouts = 200
)

func (p *pushed) part(namespace string) *part {
	p.differs = true
	in := p.parts[namespace]
	if in == nil {
		in = &part{}
		p.parts[namespace] = in
	}
	return in
}

// ran counts a proxy that runs the push.
func (p *pushed) ran(namespace string, took time.Duration) {
	in := p.part(namespace)
	in.took = append(in.took, uint32(min(took.Microseconds(), 1<<32-1)))
}

// lose counts a proxy that left before it ran the push.
func (p *pushed) lose(namespace string) { p.part(namespace).away++ }

// rollouts returns the pushes that differ from what was reported, the oldest first. They count as
// reported. A proxy that refuses something does not run what it was offered since.
func (w *watch) rollouts(refusing []*served.Subscriber) (all []*rolloutv1.Rollout) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteRefusing(refusing)
	for _, p := range w.pushes {
		if p.differs && p != w.now {
			p.differs = false
			all = append(all, p.rollout())
		}
	}
	return all
}

// place is a push in a namespace.
type place struct {
	*pushed

	namespace string
}

// noteRefusing counts who refuses. The caller holds the lock.
func (w *watch) noteRefusing(refusing []*served.Subscriber) {
	now := map[place]uint32{}
	for _, s := range refusing {
		if c := w.proxies[s]; c != nil {
			for _, p := range c.before {
				now[place{p, c.namespace}]++
			}
		}
	}
	for at := range w.refused {
		if now[at] == 0 {
			at.part(at.namespace).refused = 0
		}
	}
	for at, n := range now {
		if w.refused[at] != n {
			at.part(at.namespace).refused = n
		}
	}
	w.refused = now
}

func (p *pushed) rollout() *rolloutv1.Rollout {
	r := &rolloutv1.Rollout{Revision: p.revision, After: p.after, Began: timestamppb.New(p.begun)}
	for _, namespace := range slices.Sorted(maps.Keys(p.parts)) {
		in := p.parts[namespace]
		r.Parts = append(r.Parts, &rolloutv1.Rollout_Part{
			Namespace: namespace, Concerned: in.concerned, Ran: uint32(len(in.took)), Refused: in.refused, Away: in.away, Took: in.points(),
		})
	}
	return r
}

// points are all times, or the first, the last and others evenly between.
func (in *part) points() []uint64 {
	n := min(len(in.took), mostPoints)
	points := make([]uint64, n)
	for i := range points {
		at := i
		if len(in.took) > mostPoints {
			at = i * (len(in.took) - 1) / (mostPoints - 1)
		}
		points[i] = uint64(in.took[at])
	}
	return points
}

// renew has all pushes reported again, for a new report.
func (w *watch) renew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pushes {
		p.differs = true
	}
}

// took returns how long the last change of a proxy took; 0 if it has had none.
func (w *watch) took(s *served.Subscriber) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.proxies[s]; c != nil {
		return c.took
	}
	return 0
}
