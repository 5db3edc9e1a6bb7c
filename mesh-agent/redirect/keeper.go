package redirect

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"time"
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
	planned time.Time
	told    string // what the log was told last
}

const (
	// waitingForEnvoy is how often a new agent looks whether Envoy is ready: nothing is redirected before.
	waitingForEnvoy = 200 * time.Millisecond
	// planWithin is how long a change of the machine, such as another port of sshd, may take to be in the rules.
	planWithin = time.Minute
	// parting bounds what is done at the end.
	parting = 5 * time.Second
)

// Run applies the rules as soon as Envoy is ready, and confirms them again and again while it is. When ctx ends nothing new is redirected, and
// connections that are open go on; Close takes the rules away.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		wait := waitingForEnvoy
		err := k.look(ctx)
		if k.applied.Timeout > 0 {
			wait = k.applied.Timeout / 3
		}
		k.tell(ctx, err)
		select {
		case <-ctx.Done():
			return k.release(context.WithoutCancel(ctx))
		case <-time.After(wait):
		}
	}
}

// look confirms the rules once.
func (k *Keeper) look(ctx context.Context) error {
	listeners, err := k.Envoy(ctx)
	if err != nil {
		return err
	}
	plan := k.applied
	plan.OutboundTo, plan.InboundTo, plan.IPv4, plan.IPv6 = listeners.OutboundTo, listeners.InboundTo, listeners.IPv4, listeners.IPv6
	if time.Since(k.planned) >= planWithin {
		if plan, err = k.Plan(ctx, listeners); err != nil {
			return err
		}
		k.planned = time.Now()
	}
	if reflect.DeepEqual(plan, k.applied) {
		if err = k.Kernel.Confirm(ctx, plan); err == nil {
			return nil
		}
		// Somebody may have emptied the whole ruleset, as `systemctl reload nftables` does.
		k.Log.Warn("the rules of redirection were changed by somebody else; they are applied again", "by", k.Kernel, "error", err)
	}
	if err := k.Kernel.Apply(ctx, plan); err != nil {
		return err
	}
	k.Log.Info("traffic is redirected", "by", k.Kernel, "outbound", plan.Outbound.Ports, "inbound", plan.Inbound.Ports, "mode", plan.Mode,
		"ipv4", plan.IPv4, "ipv6", plan.IPv6, "dns", len(plan.Nameservers) > 0)
	k.applied = plan
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

func (k *Keeper) release(ctx context.Context) error {
	if k.applied.Timeout == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, parting)
	defer cancel()
	if err := k.Kernel.Release(ctx, k.applied); err != nil {
		return fmt.Errorf("end the redirection (it ends by itself within %s): %w", k.applied.Timeout, err)
	}
	k.Log.Info("nothing new is redirected")
	return nil
}

// Close takes the rules away, once Envoy's connections have ended: the kernel forgets where they come from.
func (k *Keeper) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	if k.applied.Timeout == 0 {
		return nil
	}
	if err := k.Kernel.Remove(ctx, k.applied); err != nil {
		return fmt.Errorf("take the rules of redirection away (they match nothing any more): %w; `mesh-agent redirect remove` tries again", err)
	}
	return nil
}
