package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/notify"
	"github.com/pgmesh/pgmesh/mesh-agent/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
	"github.com/pgmesh/pgmesh/mesh-agent/supervise"
)

// envoyFlags is what the flags say about the Envoy to run.
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

// supervisor is that of the Envoy that a bootstrap is for.
func (f *envoyFlags) supervisor(m *member, data []byte, again func() error, about *status.Server, log *slog.Logger) (*supervise.Supervisor, error) {
	account, err := m.tuning.account()
	if err != nil {
		return nil, err
	}
	hurry := make(chan os.Signal, 1)
	return supervise.New(supervise.Options{
		Envoy:          f.program,
		Bootstrap:      data,
		Args:           f.args(),
		Environment:    f.environment(),
		Account:        account,
		Folder:         filepath.Join(m.state.folder, "envoy"),
		Tied:           f.tied || m.state.passing,
		DrainTime:      f.drain,
		DrainMin:       f.drainMin,
		ParentShutdown: f.parentShutdown,
		Transparent:    m.mode() == bootstrap.TProxy,
		Reexec:         again,
		BeforeDrain: func() {
			signal.Notify(hurry, os.Interrupt, syscall.SIGTERM)
			_ = notify.ExtendTimeout("draining Envoy", max(f.drain, f.drainMin)+time.Minute)
		},
		EndNow: hurry,
		Output: io.MultiWriter(os.Stderr, about.Lines.Writer(status.FromEnvoy)),
		Stdout: io.MultiWriter(os.Stdout, about.Lines.Writer(status.FromAccess)),
		Log:    log,
	})
}

// endLeft ends the Envoy of an earlier agent if this one was asked to end before it could take that over.
func (f *envoyFlags) endLeft(asked context.Context, m *member, about *status.Server, log *slog.Logger) {
	if asked.Err() == nil {
		return
	}
	s, err := f.supervisor(m, nil, nil, about, log)
	if err == nil {
		err = s.EndInherited()
	}
	if err != nil {
		log.Error("the Envoy of an earlier agent may run still", "error", err)
	}
}

// reloads are the SIGHUPs that ask this program to start anew.
type reloads chan os.Signal

func newReloads() reloads {
	r := make(reloads, 1)
	signal.Notify(r, syscall.SIGHUP)
	return r
}

// follow has each SIGHUP start this program anew.
func (r reloads) follow(ctx context.Context, s *supervise.Supervisor) error {
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

// startAnew replaces this program by what is in its place on disk now, within its process: to whoever has started it nothing ends.
func (r reloads) startAnew() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	_ = notify.Reloading()
	signal.Ignore(syscall.SIGHUP)                      // until the program listens, for otherwise it would end
	err = syscall.Exec(program, os.Args, os.Environ()) //nolint:gosec // it is this program, started as it was
	signal.Notify(r, syscall.SIGHUP)
	_ = notify.Ready()
	return fmt.Errorf("%s: %w", program, err)
}

// heed is what whoever has started this program, often systemd, says to it and hears from it.
func heed(ctx context.Context, r reloads, s *supervise.Supervisor) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.follow(ctx, s) })
	group.Go(func() error { return tellServiceManager(ctx, s) })
	return group.Wait()
}

// tellServiceManager says that the program serves when Envoy does for the first time, how it is, and, as long as its supervisor answers, that it is
// alive. Until Envoy serves it asks for more time, for discovery may be away for as long as it wants.
func tellServiceManager(ctx context.Context, s *supervise.Supervisor) error {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return nil
	}
	look := time.NewTicker(100 * time.Millisecond) // Envoy does not say when it is ready, it has to be asked
	defer look.Stop()
	for n := 0; ; n++ {
		err := s.Ready(ctx)
		if err == nil {
			break
		}
		if n%50 == 0 && s.Alive(ctx) == nil {
			_ = notify.ExtendTimeout("waiting for Envoy: "+err.Error(), time.Minute)
		}
		select {
		case <-look.C:
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
