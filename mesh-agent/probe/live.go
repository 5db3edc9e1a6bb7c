package probe

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/pgmesh/pgmesh/internal/wait"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

const (
	// actWithin bounds an action, which may restart something that takes its time.
	actWithin = 2 * time.Minute
	// The pauses after actions that did not help grow from the first to the last, as those of containers that crash do.
	actFirst = 10 * time.Second
	actLast  = 5 * time.Minute
	// wellFor is how long a service has to live before the pauses begin anew.
	wellFor = 10 * time.Minute
)

// Liveness is what is done about a service that has stopped to live.
type Liveness struct {
	Service string
	Probe   *machinev1.Probe
	Action  []string
	Log     *slog.Logger
	// Acted is told of each action, and what has come of it.
	Acted func(why, failed error)

	first time.Duration // pause; tests are in a hurry
}

// Run looks after the service until the context ends.
func (l Liveness) Run(ctx context.Context) {
	if l.first == 0 {
		l.first = actFirst
	}
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.Multiplier, pauses.RandomizationFactor, pauses.MaxInterval = l.first, 2, 0.1, max(l.first, actLast)
	for {
		begun := time.Now()
		why := l.dies(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > wellFor {
			pauses.Reset()
		}
		l.act(ctx, why)
		if !wait.For(ctx, pauses.NextBackOff()) {
			return
		}
	}
}

// dies waits until the service lives no more, and returns why.
func (l Liveness) dies(ctx context.Context) (why error) {
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
	ctx, cancel := context.WithTimeout(ctx, actWithin)
	defer cancel()
	l.Log.Warn("a service has stopped to live", "service", l.Service, "because", why, "action", strings.Join(l.Action, " "))
	failed := execute(ctx, l.Action)
	if failed != nil {
		l.Log.Error("the action for a service that has stopped to live failed; it is taken again if the service does not come back", "service", l.Service, "error", failed)
	}
	if l.Acted != nil {
		l.Acted(why, failed)
	}
}
