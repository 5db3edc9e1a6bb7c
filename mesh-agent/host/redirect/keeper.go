package redirect

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// Keeper keeps the rules applied and confirmed while Envoy is healthy.
type Keeper struct {
	Kernel Kernel
	// Plan makes a plan for the machine as it is now and these listeners.
	Plan func(context.Context, Listeners) (Plan, error)
	// Envoy returns Envoy's listeners. It fails while Envoy is not healthy.
	Envoy func(context.Context) (Listeners, error)
	// Works, if not nil, is called each time the rules were confirmed.
	Works func()
	Log   *slog.Logger

	applied   Plan
	listeners Listeners // the listeners that the plan was made for
	planned   time.Time
	logged    string // the last logged error, "" for success

	mu     sync.Mutex
	status Status
}

// Status describes the rules.
type Status struct {
	By        string
	Rules     string    // a summary; "" before anything is redirected
	Confirmed time.Time // time of the last confirmation
	Until     time.Time // when they expire unless confirmed again
	Error     error     // why the last confirmation failed
}

// Status returns the present status.
func (k *Keeper) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

func (k *Keeper) setStatus(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status.By, k.status.Error = k.Kernel.String(), err
	if err == nil {
		k.status.Confirmed = time.Now()
		k.status.Until = k.status.Confirmed.Add(k.applied.Timeout)
		k.status.Rules = k.applied.summary()
	}
}

const (
	// retryInterval is how often to retry while Envoy is not healthy.
	retryInterval = 200 * time.Millisecond
	// maxPlanAge is how long a change of the machine, such as a new port of sshd, may take to reach
	// the rules.
	maxPlanAge = time.Minute
	// closeTimeout bounds the final release and removal.
	closeTimeout = 5 * time.Second
)

// Run applies the rules when Envoy is ready, and keeps confirming them while it is. When ctx ends,
// new connections are no longer redirected, and open ones continue; Close then removes the rules.
func (k *Keeper) Run(ctx context.Context) {
	for interval := time.Duration(0); wait.For(ctx, interval); {
		err := k.update(ctx)
		k.setStatus(err)
		k.logChange(ctx, err)
		interval = retryInterval
		if err == nil {
			interval = k.applied.Timeout / 3
			if k.Works != nil {
				k.Works()
			}
		}
	}
	k.release(context.WithoutCancel(ctx))
}

// update confirms the rules once. It applies them again if the plan changed or they are gone.
func (k *Keeper) update(ctx context.Context) error {
	listeners, err := k.Envoy(ctx)
	if err != nil {
		return err
	}
	plan, planned := k.applied, k.planned
	if !reflect.DeepEqual(listeners, k.listeners) || time.Since(k.planned) >= maxPlanAge {
		if plan, err = k.Plan(ctx, listeners); err != nil {
			return err
		}
		planned = time.Now()
	}
	if reflect.DeepEqual(plan, k.applied) {
		if err = k.Kernel.Confirm(ctx, plan); err == nil {
			k.listeners, k.planned = listeners, planned
			return nil
		}
		// Another program may have flushed the ruleset, as `systemctl reload nftables` does.
		k.Log.Warn("another program has changed the redirection rules; applying them again", "by", k.Kernel, "error", err)
	}
	if err := k.Kernel.Apply(ctx, plan); err != nil {
		return err
	}
	k.Log.Info("traffic is redirected", "by", k.Kernel, "what", plan.summary())
	k.applied, k.listeners, k.planned = plan, listeners, planned // only after success, so that a failure is retried
	return nil
}

// logChange logs the result if it changed.
func (k *Keeper) logChange(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	word := ""
	if err != nil {
		word = err.Error()
	}
	if word == k.logged {
		return
	}
	k.logged = word
	switch {
	case err == nil:
		k.Log.Info("redirection is confirmed", "for", k.applied.Timeout)
	case k.applied.Timeout > 0:
		k.Log.Warn("redirection is not confirmed, and ends by itself if that continues", "within", k.applied.Timeout, "error", err)
	default:
		k.Log.Info("nothing is redirected yet", "reason", err)
	}
}

func (k *Keeper) release(ctx context.Context) {
	if k.applied.Timeout == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if err := k.Kernel.Release(ctx, k.applied); err != nil {
		k.Log.Warn("redirection could not be ended; it ends by itself", "within", k.applied.Timeout, "error", err)
		return
	}
	k.Log.Info("nothing new is redirected")
}

// Close removes the rules. Call it after Envoy's connections have ended, as the kernel forgets
// their original destinations.
func (k *Keeper) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if k.applied.Timeout == 0 {
		return nil
	}
	return k.Kernel.Remove(ctx, k.applied)
}
