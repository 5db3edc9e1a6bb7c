package supervise

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// minRestartDelay is short: applications on the machine have no network until Envoy is back.
	minRestartDelay = 100 * time.Millisecond
	maxRestartDelay = 30 * time.Second

	// healthyAfter is how long Envoy must have run for the backoff to start over.
	healthyAfter = time.Minute
)

// restartBackoff computes the wait before a restart: longer after every death, with jitter, and short again
// after a healthy run.
type restartBackoff struct {
	backoff *backoff.ExponentialBackOff
	used    bool
}

func newRestartBackoff() *restartBackoff {
	p := &restartBackoff{backoff: &backoff.ExponentialBackOff{
		InitialInterval:     minRestartDelay,
		MaxInterval:         maxRestartDelay,
		Multiplier:          2,
		RandomizationFactor: 0.5,
	}}
	p.backoff.Reset()
	return p
}

func (p *restartBackoff) next(lived time.Duration) time.Duration {
	p.used = true
	if lived >= healthyAfter {
		p.backoff.Reset()
	}
	return p.backoff.NextBackOff()
}

func (p *restartBackoff) isFirst() bool { return !p.used }
