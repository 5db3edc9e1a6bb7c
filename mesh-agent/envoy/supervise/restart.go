package supervise

import (
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
)

// restarting are the pauses before restarts. The first is short: applications on the machine have
// no network until Envoy is back.
var restarting = retry.Pauses{First: 100 * time.Millisecond, Longest: 30 * time.Second, Growth: 2}

// healthyAfter is how long Envoy must have run for the pauses to start over.
const healthyAfter = time.Minute

// restartBackoff computes the wait before a restart: longer after every death, and short again
// after a healthy run.
type restartBackoff struct {
	backoff *retry.Backoff
	used    bool
}

func newRestartBackoff() *restartBackoff { return &restartBackoff{backoff: restarting.Backoff()} }

func (p *restartBackoff) next(lived time.Duration) time.Duration {
	p.used = true
	if lived >= healthyAfter {
		p.backoff.Reset()
	}
	return p.backoff.Next()
}

func (p *restartBackoff) isFirst() bool { return !p.used }
