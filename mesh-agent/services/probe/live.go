package probe

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

const (
	// actionTimeout bounds an action; a restart may take a while.
	actionTimeout = 2 * time.Minute
	// stableAfter is how long a service has to live for the pauses to start over.
	stableAfter = 10 * time.Minute
)

// betweenActions are the pauses between actions that do not help, like those of crashing
// containers.
var betweenActions = retry.Pauses{First: 10 * time.Second, Longest: 5 * time.Minute, Growth: 2, Jitter: 0.1}

// Liveness runs an action when a service's liveness probe fails.
type Liveness struct {
	Service string
	Probe   *machinev1.Probe
	Action  []string
	Log     *slog.Logger
	// OnAction is called after each action, with the reason for it and its error. It may be nil.
	OnAction func(why, failed error)

	first time.Duration // pause, if a test wants another
}

// Run watches the service until the context ends.
func (l Liveness) Run(ctx context.Context) {
	pauses := betweenActions
	pauses.First = cmp.Or(l.first, pauses.First)
	backoff := pauses.Backoff()
	for {
		begun := time.Now()
		why := l.awaitFailure(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > stableAfter {
			backoff.Reset()
		}
		l.act(ctx, why)
		if !backoff.Wait(ctx) {
			return
		}
	}
}

// awaitFailure waits until the probe fails, and returns why.
func (l Liveness) awaitFailure(ctx context.Context) (why error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	Watch(ctx, l.Probe, func(wrong error) {
		if wrong != nil {
			why = wrong
			cancel()
		}
	})
	return why
}

func (l Liveness) act(ctx context.Context, why error) {
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	l.Log.Warn("a service has stopped to live", "service", l.Service, "reason", why, "action", strings.Join(l.Action, " "))
	failed := execute(ctx, l.Action)
	if failed != nil {
		l.Log.Error("the action for a service that has stopped to live failed; it is taken again if the service does not come back", "service", l.Service, "error", failed)
	}
	if l.OnAction != nil {
		l.OnAction(why, failed)
	}
}
