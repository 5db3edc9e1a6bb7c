package rollout

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// pushed is a push: how many proxies there was something new for, and how many run it.
type pushed struct {
	watch           *watch
	revision, after int64
	begun           time.Time
	parts           map[string]*part // by namespace
	differs         bool             // from what was reported
	forgotten       bool             // it is remembered no more
}

// part is a push in a namespace.
type part struct {
	of                       *pushed
	concerned, refused, away uint32
	took                     []uint32 // microseconds, in order
}

const (
	// mostPoints is how many times a part reports.
	mostPoints = 32
	// mostRollouts bounds a message, as the protocol does.
	mostRollouts = 200
)

// differ notes that the push differs from what was reported of it.
func (p *pushed) differ() {
	if !p.differs {
		p.differs = true
		p.watch.differing = append(p.watch.differing, p)
	}
}

// part returns that of a namespace, which its caller changes.
func (p *pushed) part(namespace string) *part {
	p.differ()
	in := p.parts[namespace]
	if in == nil {
		in = &part{of: p}
		p.parts[namespace] = in
	}
	return in
}

// ran counts a proxy that runs the push.
func (in *part) ran(took uint32) {
	in.of.differ()
	in.took = append(in.took, took)
}

// lose counts a proxy that left before it ran the push.
func (in *part) lose() {
	in.of.differ()
	in.away++
}

// setRefused notes how many proxies do not run the push because they refuse something.
func (in *part) setRefused(n uint32) {
	in.of.differ()
	in.refused = n
}

// rollouts returns the pushes that differ from what was reported, the oldest first: those that are
// over, or all of them. They count as reported. A proxy that refuses something does not run what it
// was offered since.
func (w *watch) rollouts(refusing []*course, unfinished bool) (all []*rolloutv1.Rollout) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteRefusing(refusing)
	slices.SortFunc(w.differing, func(a, b *pushed) int { return cmp.Compare(a.revision, b.revision) })
	for _, p := range w.differing {
		if !p.forgotten && p != w.now && (unfinished || p.over()) {
			p.differs = false
			all = append(all, p.rollout())
		}
	}
	w.differing = slices.DeleteFunc(w.differing, func(p *pushed) bool { return p.forgotten || !p.differs })
	return all
}

// noteRefusing counts who refuses. The caller holds the lock.
func (w *watch) noteRefusing(refusing []*course) {
	now := map[*part]uint32{}
	for _, c := range refusing {
		for _, in := range c.before {
			now[in]++
		}
	}
	for in := range w.refused {
		if now[in] == 0 {
			in.setRefused(0)
		}
	}
	for in, n := range now {
		if w.refused[in] != n {
			in.setRefused(n)
		}
	}
	w.refused = now
}

// over reports whether every proxy has run the push, refuses something or has left.
func (p *pushed) over() bool {
	for _, in := range p.parts {
		if uint32(len(in.took))+in.refused+in.away < in.concerned {
			return false
		}
	}
	return true
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
		p.differ()
	}
}
