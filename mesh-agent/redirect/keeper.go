package redirect

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/wait"
)

// Keeper keeps the rules in the kernel while Envoy is well.
type Keeper struct {
	Kernel Kernel
	// Plan makes the plan anew, for the machine as it is now and these listeners of Envoy.
	Plan func(context.Context, Listeners) (Plan, error)
	// Envoy tells where Envoy takes what is redirected. It fails while Envoy is not well.
	Envoy func(context.Context) (Listeners, error)
	Log   *slog.Logger

	applied Plan
	seen    Listeners // that it was made for
	planned time.Time
	told    string // what the log was told last

	mu     sync.Mutex
	status Status
}

// Status is how the rules are.
type Status struct {
	By        string
	Rules     string    // what is redirected, in a few words; "" before anything is
	Confirmed time.Time // for the last time
	Until     time.Time // when they cease to count, unless they are confirmed again
	Error     error     // why they were not confirmed just now
}

// Status may be asked from any goroutine.
func (k *Keeper) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

func (k *Keeper) note(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status.By, k.status.Error = k.Kernel.String(), err
	if err == nil {
		k.status.Confirmed = time.Now()
		k.status.Until = k.status.Confirmed.Add(k.applied.Timeout)
		k.status.Rules = k.applied.brief()
	}
}

const (
	// waitingForEnvoy is how often is looked whether Envoy is well while it is not.
	waitingForEnvoy = 200 * time.Millisecond
	// planWithin is how long a change of the machine, such as another port of sshd, may take to be in the rules.
	planWithin = time.Minute
	// parting bounds what is done at the end.
	parting = 5 * time.Second
)

// Run applies the rules as soon as Envoy is ready, and confirms them again and again while it is. When ctx ends nothing new is redirected, and
// connections that are open go on; Close takes the rules away.
func (k *Keeper) Run(ctx context.Context) {
	for interval := time.Duration(0); wait.For(ctx, interval); {
		err := k.look(ctx)
		k.note(err)
		k.tell(ctx, err)
		interval = waitingForEnvoy
		if err == nil {
			interval = k.applied.Timeout / 3
		}
	}
	k.release(context.WithoutCancel(ctx))
}

// look confirms the rules once.
func (k *Keeper) look(ctx context.Context) error {
	listeners, err := k.Envoy(ctx)
	if err != nil {
		return err
	}
	plan, planned := k.applied, k.planned
	if !reflect.DeepEqual(listeners, k.seen) || time.Since(k.planned) >= planWithin {
		if plan, err = k.Plan(ctx, listeners); err != nil {
			return err
		}
		planned = time.Now()
	}
	if reflect.DeepEqual(plan, k.applied) {
		if err = k.Kernel.Confirm(ctx, plan); err == nil {
			k.seen, k.planned = listeners, planned
			return nil
		}
		// Somebody may have emptied the whole ruleset, as `systemctl reload nftables` does.
		k.Log.Warn("the rules of redirection were changed by somebody else; they are applied again", "by", k.Kernel, "error", err)
	}
	if err := k.Kernel.Apply(ctx, plan); err != nil {
		return err
	}
	k.Log.Info("traffic is redirected", "by", k.Kernel, "what", plan.brief())
	k.applied, k.seen, k.planned = plan, listeners, planned // and not before: what could not be applied is tried again
	return nil
}

// tell logs what is wrong when that is new.
func (k *Keeper) tell(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	word := ""
	if err != nil {
		word = err.Error()
	}
	if word == k.told {
		return
	}
	k.told = word
	switch {
	case err == nil:
		k.Log.Info("redirection is confirmed", "for", k.applied.Timeout)
	case k.applied.Timeout > 0:
		k.Log.Warn("redirection is not confirmed; it ends by itself if that stays so", "within", k.applied.Timeout, "error", err)
	default:
		k.Log.Info("nothing is redirected yet", "reason", err)
	}
}

func (k *Keeper) release(ctx context.Context) {
	if k.applied.Timeout == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, parting)
	defer cancel()
	if err := k.Kernel.Release(ctx, k.applied); err != nil {
		k.Log.Warn("redirection could not be ended; it ends by itself", "within", k.applied.Timeout, "error", err)
		return
	}
	k.Log.Info("nothing new is redirected")
}

// Close takes the rules away, once Envoy's connections have ended: the kernel forgets where they come from.
func (k *Keeper) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	if k.applied.Timeout == 0 {
		return nil
	}
	return k.Kernel.Remove(ctx, k.applied)
}
