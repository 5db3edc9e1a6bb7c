package probe

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

const (
	// actionTimeout bounds an action; a restart may take a while.
	actionTimeout = 2 * time.Minute
	// Backoff between actions that do not help, like that of crashing containers.
	minActionInterval = 10 * time.Second
	maxActionInterval = 5 * time.Minute
	// stableAfter is how long a service has to live for the backoff to start over.
	stableAfter = 10 * time.Minute
)

// Liveness runs an action when a service's liveness probe fails.
type Liveness struct {
	Service string
	Probe   *machinev1.Probe
	Action  []string
	Log     *slog.Logger
	// OnAction is called after each action, with the reason for it and its error. It may be nil.
	OnAction func(why, failed error)

	minInterval time.Duration // replaced by tests
}

// Run watches the service until the context ends.
func (l Liveness) Run(ctx context.Context) {
	if l.minInterval == 0 {
		l.minInterval = minActionInterval
	}
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.Multiplier, pauses.RandomizationFactor, pauses.MaxInterval = l.minInterval, 2, 0.1, max(l.minInterval, maxActionInterval)
	for {
		begun := time.Now()
		why := l.awaitFailure(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > stableAfter {
			pauses.Reset()
		}
		l.act(ctx, why)
		if !wait.For(ctx, pauses.NextBackOff()) {
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
	l.Log.Warn("a service has stopped to live", "service", l.Service, "because", why, "action", strings.Join(l.Action, " "))
	failed := execute(ctx, l.Action)
	if failed != nil {
		l.Log.Error("the action for a service that has stopped to live failed; it is taken again if the service does not come back", "service", l.Service, "error", failed)
	}
	if l.OnAction != nil {
		l.OnAction(why, failed)
	}
}
