package ads

import (
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// progress is how far a change has advanced along a plan.
type progress struct {
	stage        int
	expected     []expectation
	timer        *time.Timer // nil: wait without a time limit
	impatient    bool        // the client took too long: do not wait for it in this stage
	reconnecting bool        // the client has reconnected and may still be naming what it has
	repeats      bool        // repeatForMissing has run
	warming      bool        // the client warms up something that it was sent in this stage
}

// expectation is a resource that the client will ask for because of another that it was sent.
type expectation struct {
	ref     served.Ref
	because *subscription
}

// start starts the plan for a client. It reuses `over`, a finished progress, if there is one.
func (p *Plan) start(patience time.Duration, over *progress) *progress {
	switch {
	case p.When != "":
		return &progress{}
	case over == nil:
		return &progress{timer: time.NewTimer(patience)}
	}
	*over = progress{timer: over.timer}
	over.timer.Reset(patience)
	return over
}

// overdue returns a channel that fires when the client has taken too long over a stage. It may be
// called on nil.
func (p *progress) overdue() <-chan time.Time {
	if p == nil || p.timer == nil {
		return nil
	}
	return p.timer.C
}

// next starts the next stage and drops the expectations that keep refuses.
func (p *progress) next(patience time.Duration, keep func(expectation) bool) {
	p.stage++
	p.impatient, p.reconnecting, p.warming = false, false, false
	p.expected = slices.DeleteFunc(p.expected, func(x expectation) bool { return !keep(x) })
	if p.timer != nil {
		p.timer.Reset(patience)
	}
}

// refused drops the expectations that a refused response raised.
func (p *progress) refused(sub *subscription) {
	if p != nil {
		p.expected = slices.DeleteFunc(p.expected, func(x expectation) bool { return x.because == sub })
	}
}

func (p *progress) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}
