package passage

import (
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/tracing"
)

const (
	// mostRollOuts is how many are watched at once: the oldest is ended for a newer one.
	mostRollOuts = 16
	// longest is how long proxies are waited for.
	longest = time.Minute
	// refusing is how long proxies that refuse something are waited for once all others run the
	// change. What they refuse is found out meanwhile.
	refusing = 2 * time.Second
	// mostRefusals bounds how many refusals are told of.
	mostRefusals = 20
)

// rollOut is a push on its way to the proxies.
type rollOut struct {
	batch

	after           int64 // the revision before
	pushing, pushed time.Time
	done            bool // all proxies have been offered what is new to them
	work            []push.Work
	waiting         map[*served.Subscriber]bool // proxies that do not run it yet, and whether they refuse something
	concerned       int
	ran, away       int
	refusals        int
	first, last     time.Time // when proxies came to run it
	events          []tracing.Event
	giveUp          *time.Timer
	hurried         bool // only proxies that refuse something are waited for
}

// each calls what with each roll-out that a proxy is waited for in, up to a revision, if one is
// given. The proxy is waited for no more.
func (r *Recorder) each(s *served.Subscriber, what func(*rollOut), upTo ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rollOuts) == 0 {
		return
	}
	newest := r.rollOuts[len(r.rollOuts)-1].revision
	for _, revision := range upTo {
		newest, _ = strconv.ParseInt(revision, 10, 64) // 0 for what is not of the engine
	}
	for _, o := range slices.Backward(r.rollOuts) { // one that ends here moves only those that were looked at
		if _, waits := o.waiting[s]; !waits || o.revision > newest {
			continue
		}
		delete(o.waiting, s)
		what(o)
		r.endIfSettled(o)
	}
}

func (o *rollOut) runs(now time.Time) {
	if o.ran++; o.ran == 1 {
		o.first = now
	}
	o.last = now
}

// endIfSettled ends a roll-out that nobody is waited for in. The caller holds the lock.
func (r *Recorder) endIfSettled(o *rollOut) {
	switch {
	case !o.done:
	case len(o.waiting) == 0:
		r.end(o, o.settledAt())
	case !o.hurried && o.onlyRefused():
		o.hurried = true
		o.giveUp.Reset(refusing)
	}
}

func (o *rollOut) onlyRefused() bool {
	for _, refuses := range o.waiting {
		if !refuses {
			return false
		}
	}
	return true
}

// settledAt is when the last proxy came to run it, or, if there is none, when it was pushed.
func (o *rollOut) settledAt() time.Time {
	if o.last.After(o.pushed) {
		return o.last
	}
	return o.pushed
}

func (r *Recorder) overdue(o *rollOut) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(o, time.Now())
}

// end records a roll-out, unless that has been done. The caller holds the lock.
func (r *Recorder) end(o *rollOut, at time.Time) {
	i := slices.Index(r.rollOuts, o)
	if i < 0 {
		return
	}
	r.rollOuts = slices.Delete(r.rollOuts, i, i+1)
	if o.giveUp != nil {
		o.giveUp.Stop()
	}
	if o.ran > 0 {
		o.events = append(o.events, tracing.Event{Name: "the first proxy runs it", At: o.first})
		if o.ran+o.away == o.concerned {
			o.events = append(o.events, tracing.Event{Name: "the last proxy runs it", At: o.last})
		}
	}
	r.record(o, at)
}

func (r *Recorder) record(o *rollOut, at time.Time) {
	change := r.tracer.Of(o.mesh, o.revision)
	whole := tracing.Span{Name: "roll out", Began: o.arrived, Ended: at, Events: o.events, Attributes: append(o.contents.attributes(),
		attribute.Int(tracing.ConcernedKey, o.concerned), attribute.Int(tracing.RanKey, o.ran), attribute.Int(tracing.RefusedKey, o.refusals),
		attribute.Int(tracing.AwayKey, o.away), attribute.Int(tracing.UnfinishedKey, len(o.waiting)))}
	if change != nil {
		whole.ID = change.SpanID(r.seed)
	}
	if o.refusals > 0 {
		whole.Failure = "proxies refuse something of it"
	}
	r.tracer.RecordMerged(o.mesh, o.after, o.revision, whole)
	for _, part := range []tracing.Span{
		{Name: "wait", Began: o.arrived, Ended: o.taken},
		{Name: "build", Began: o.taken, Ended: o.built},
		{Name: "push", Began: o.pushing, Ended: o.pushed, Attributes: workAttributes(o.work)},
	} {
		part.Parent = whole.ID
		change.Record(part)
	}
}
