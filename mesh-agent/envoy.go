package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/kit/notify"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/supervise"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// envoyFlags says which Envoy to run and how.
type envoyFlags struct {
	argumentFlags

	program         string
	drain, drainMin time.Duration
	parentShutdown  time.Duration
	tied            bool
	status          string
}

func (f *envoyFlags) declare(flags *pflag.FlagSet) {
	flags.StringVar(&f.program, "envoy", "envoy", "the Envoy to run: a path, or a name to find in PATH")
	f.argumentFlags.declare(flags)
	flags.DurationVar(&f.drain, "drain-time", 5*time.Second, "how long open connections may take to finish at the end")
	flags.DurationVar(&f.drainMin, "drain-min", 0, "how long Envoy goes on at the end even if no connection is open, for load balancers that need time to notice")
	flags.DurationVar(&f.parentShutdown, "parent-shutdown-time", time.Minute,
		"how long connections may go on over an Envoy that another has replaced, because it was upgraded or its flags have changed")
	flags.BoolVar(&f.tied, "tie-envoy", false, "have Envoy die with this agent, however that ends; otherwise it goes on without one, and the next agent takes it over")
	flags.StringVar(&f.status, "status", "127.0.0.1:15026", "address of /healthz/ready, /healthz/live and /metrics, empty for none")
}

// supervisor returns the supervisor for an Envoy with this bootstrap.
func (f *envoyFlags) supervisor(m *member, data []byte, again func() error, server *status.Server, log *slog.Logger) (*supervise.Supervisor, error) {
	account, err := m.tuning.account()
	if err != nil {
		return nil, err
	}
	endNow := make(chan os.Signal, 1)
	return supervise.New(supervise.Options{
		Envoy:          f.program,
		Bootstrap:      data,
		Args:           f.args(),
		Environment:    f.environment(),
		Account:        account,
		Folder:         m.state.File("envoy"),
		Tied:           f.tied || m.state.Temporary,
		DrainTime:      f.drain,
		DrainMin:       f.drainMin,
		ParentShutdown: f.parentShutdown,
		Transparent:    m.mode() == bootstrap.TProxy,
		Reexec:         again,
		BeforeDrain: func() {
			signal.Notify(endNow, os.Interrupt, syscall.SIGTERM)
			_ = notify.ExtendTimeout("draining Envoy", max(f.drain, f.drainMin)+time.Minute)
		},
		EndNow: endNow,
		Output: io.MultiWriter(os.Stderr, server.Lines.Writer(status.FromEnvoy)),
		Stdout: io.MultiWriter(os.Stdout, server.Lines.Writer(status.FromAccess)),
		Log:    log,
	})
}

// endInherited ends the Envoy of an earlier agent, if this one was asked to end before it could adopt it.
func (f *envoyFlags) endInherited(asked context.Context, m *member, server *status.Server, log *slog.Logger) {
	if asked.Err() == nil {
		return
	}
	s, err := f.supervisor(m, nil, nil, server, log)
	if err == nil {
		err = s.EndInherited()
	}
	if err != nil {
		log.Error("the Envoy of an earlier agent may run still", "error", err)
	}
}

// reloadSignals receives SIGHUP, which asks this program to reexec.
type reloadSignals chan os.Signal

func newReloadSignals() reloadSignals {
	r := make(reloadSignals, 1)
	signal.Notify(r, syscall.SIGHUP)
	return r
}

// handle reloads for each signal.
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

// handleServiceManager handles signals from the service manager, and sends notifications to it.
func handleServiceManager(ctx context.Context, r reloadSignals, s *supervise.Supervisor) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.handle(ctx, s) })
	group.Go(func() error { return notifyServiceManager(ctx, s) })
	return group.Wait()
}

// notifyServiceManager notifies systemd when Envoy first serves, then of its state, and of being alive
// while the supervisor responds. Until Envoy serves it asks for more time, because discovery may be away
// for any time.
func notifyServiceManager(ctx context.Context, s *supervise.Supervisor) error {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return nil
	}
	poll := time.NewTicker(100 * time.Millisecond) // Envoy does not announce that it is ready
	defer poll.Stop()
	for n := 0; ; n++ {
		err := s.Ready(ctx)
		if err == nil {
			break
		}
		if n%50 == 0 && s.Alive(ctx) == nil {
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
