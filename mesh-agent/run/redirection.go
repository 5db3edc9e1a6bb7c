package run

import (
	"context"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/mesh-agent/host/redirect"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// redirection runs while the agent does. Without a keeper it redirects nothing.
type redirection struct {
	keeper     *redirect.Keeper
	works      chan struct{} // closed once the machine's traffic comes through Envoy; nil without a keeper
	markerFile string        // file that records that there may be rules
	log        *slog.Logger
}

// openRedirection checks that the machine can redirect as the flags want it; run starts to when
// Envoy is ready. Without --redirect it removes an earlier agent's rules.
func (a *agent) openRedirection(ctx context.Context) (*redirection, error) {
	m := &a.Machine
	r := &redirection{markerFile: m.State.File("redirect"), log: a.log}
	if !m.Redirect.On {
		r.removeLeftovers(ctx)
		return r, nil
	}
	if err := m.CheckRedirect(); err != nil {
		return nil, err
	}
	plan := m.RedirectPlanner(a.Status)
	trial, err := plan(ctx, m.DefaultListeners())
	if err != nil {
		return nil, err
	}
	kernel, err := redirect.Open(ctx, m.Redirect.By, trial)
	if err == nil {
		err = kernel.Check(ctx, trial)
	}
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(m.State.Path, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(r.markerFile, []byte(m.Redirect.Table+"\n"), 0o600); err != nil {
		return nil, err
	}
	r.works = make(chan struct{})
	r.keeper = &redirect.Keeper{
		Kernel: kernel, Plan: plan, Log: a.log, Works: sync.OnceFunc(func() { close(r.works) }),
		Envoy: func(ctx context.Context) (redirect.Listeners, error) {
			return redirect.AskListeners(ctx, a.supervisor.Ask)
		},
	}
	a.server.Parts.Redirection = r.status
	return r, nil
}

// await waits until what comes to the machine comes through Envoy, if that is to be. It reports
// whether it does, before ctx has ended.
func (r *redirection) await(ctx context.Context) bool {
	if r.works == nil {
		return true
	}
	select {
	case <-r.works:
		return true
	case <-ctx.Done():
		return false
	}
}

// run redirects until ctx ends. The returned context ends when new connections are no longer
// redirected.
func (r *redirection) run(ctx context.Context, group *errgroup.Group) context.Context {
	if r.keeper == nil {
		return ctx
	}
	until, released := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error {
		defer released()
		r.keeper.Run(ctx)
		return nil
	})
	return until
}

// close removes the rules, after Envoy has ended.
func (r *redirection) close(ctx context.Context) {
	if r.keeper == nil {
		return
	}
	if err := r.keeper.Close(ctx); err != nil {
		r.log.Error("rules of redirection are left, and match nothing; `mesh-agent redirect remove` takes them away", "error", err)
		return
	}
	_ = os.Remove(r.markerFile)
}

// removeLeftovers removes the rules of a killed agent, if this one is not to redirect.
func (r *redirection) removeLeftovers(ctx context.Context) {
	table, err := os.ReadFile(r.markerFile)
	if err != nil {
		return
	}
	removed, err := redirect.RemoveAll(ctx, string(table[:max(0, len(table)-1)]))
	if err != nil {
		r.log.Warn("an earlier agent's redirection rules could not be removed; they match nothing", "error", err)
		return
	}
	if len(removed) > 0 {
		r.log.Info("removed an earlier agent's redirection rules", "by", removed)
	}
	_ = os.Remove(r.markerFile)
}

func (r *redirection) status() status.Redirection {
	now := r.keeper.Status()
	s := status.Redirection{By: now.By, Rules: now.Rules, Confirmed: now.Confirmed, Until: now.Until}
	if now.Error != nil {
		s.Trouble = "nothing is redirected, or soon will not be: " + now.Error.Error()
	}
	return s
}
