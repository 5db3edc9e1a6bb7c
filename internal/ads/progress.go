package ads

import "time"

// progress is how far a change has come along a plan.
type progress struct {
	stage     int
	expected  []Ref
	timer     *time.Timer
	impatient bool // the client took too long: go on without waiting
}

func newProgress(patience time.Duration) *progress {
	return &progress{timer: time.NewTimer(patience)}
}

// overdue fires when the client has taken too long over a stage. It is safe to call when nothing is on its way.
func (p *progress) overdue() <-chan time.Time {
	if p == nil {
		return nil
	}
	return p.timer.C
}

func (p *progress) next(patience time.Duration) {
	p.stage++
	p.expected, p.impatient = nil, false
	p.timer.Reset(patience)
}

func (p *progress) stop() { p.timer.Stop() }
