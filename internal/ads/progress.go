package ads

import (
	"slices"
	"time"
)

// progress is how far a change has come along a plan.
type progress struct {
	stage     int
	expected  []expectation
	timer     *time.Timer // nil: the client is waited for however long it takes
	impatient bool        // the client took too long: go on without waiting
	gathers   bool        // the client comes back, and may still be saying what it has
	repeats   bool        // it has been sent again what something may be waiting for that it has not asked for yet
}

// expectation is a resource that the client will ask for because of what it was sent of a type.
type expectation struct {
	ref     Ref
	because *subscription
}

// start begins a plan for one client, in place of one that has ended, if there is any.
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

// overdue fires when the client has taken too long over a stage. It is safe to call when nothing is on its way.
func (p *progress) overdue() <-chan time.Time {
	if p == nil || p.timer == nil {
		return nil
	}
	return p.timer.C
}

// next begins the next stage. Expectations outlive a stage only if they are kept.
func (p *progress) next(patience time.Duration, keep func(expectation) bool) {
	p.stage++
	p.impatient, p.gathers = false, false
	p.expected = slices.DeleteFunc(p.expected, func(x expectation) bool { return !keep(x) })
	if p.timer != nil {
		p.timer.Reset(patience)
	}
}

// refused forgets what the client would have asked for, had it not refused a type's response.
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
