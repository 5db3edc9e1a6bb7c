package supervise

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// firstPause is short: applications on the machine are without their network until Envoy is back.
	firstPause = 100 * time.Millisecond
	lastPause  = 30 * time.Second

	// healthyAfter is how long Envoy must have lived for its death to count as a new misfortune.
	healthyAfter = time.Minute
)

// restartPause says how long to wait before the next start: longer after every death, with jitter, and short again
// after a healthy life.
type restartPause struct {
	growing *backoff.ExponentialBackOff
	used    bool
}

func newRestartPause() *restartPause {
	p := &restartPause{growing: &backoff.ExponentialBackOff{
		InitialInterval:     firstPause,
		MaxInterval:         lastPause,
		Multiplier:          2,
		RandomizationFactor: 0.5,
	}}
	p.growing.Reset()
	return p
}

func (p *restartPause) next(lived time.Duration) time.Duration {
	p.used = true
	if lived >= healthyAfter {
		p.growing.Reset()
	}
	return p.growing.NextBackOff()
}

func (p *restartPause) isFirst() bool { return !p.used }
