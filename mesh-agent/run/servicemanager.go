package run

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/kit/notify"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/supervise"
)

// reloadSignals receives SIGHUP, which asks this program to restart itself.
type reloadSignals chan os.Signal

func newReloadSignals() reloadSignals {
	r := make(reloadSignals, 1)
	signal.Notify(r, syscall.SIGHUP)
	return r
}

// handle restarts the agent at each signal.
func (r reloadSignals) handle(ctx context.Context, s *supervise.Supervisor) error {
	defer signal.Stop(r)
	for {
		select {
		case <-r:
			s.Reload()
		case <-ctx.Done():
			return nil
		}
	}
}

// reexec replaces this program by the one on disk, within its process, so its parent sees no end.
func (r reloadSignals) reexec() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	_ = notify.Reloading()
	signal.Ignore(syscall.SIGHUP)                      // SIGHUP would end the new program until it listens for it
	err = syscall.Exec(program, os.Args, os.Environ()) //nolint:gosec // this program, started as it was
	signal.Notify(r, syscall.SIGHUP)
	_ = notify.Ready()
	return fmt.Errorf("%s: %w", program, err)
}

// handleServiceManager does what the service manager asks for, and tells it how the agent is.
func handleServiceManager(ctx context.Context, r reloadSignals, s *supervise.Supervisor) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.handle(ctx, s) })
	group.Go(func() error { return notifyServiceManager(ctx, s) })
	return group.Wait()
}

// notifyServiceManager tells systemd when Envoy first serves, then how it is, and that the agent is
// alive while the supervisor responds. Until Envoy serves it asks for more time, because discovery
// may be away for any time.
func notifyServiceManager(ctx context.Context, s *supervise.Supervisor) error {
	if !notify.Awaited() {
		return nil
	}
	poll := time.NewTicker(100 * time.Millisecond) // Envoy does not say by itself that it is ready
	defer poll.Stop()
	for n := 0; ; n++ {
		err := s.Ready(ctx)
		if err == nil {
			break
		}
		if n%50 == 0 && s.Alive(ctx) == nil { // each five seconds
			_ = notify.ExtendTimeout("waiting for Envoy: "+err.Error(), time.Minute)
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return notify.Stopping()
		}
	}
	return notify.Run(ctx, func() string {
		if s.Alive(ctx) != nil {
			return "ending"
		}
		if err := s.Ready(ctx); err != nil {
			return "Envoy is not ready: " + err.Error()
		}
		return "Envoy serves"
	})
}
