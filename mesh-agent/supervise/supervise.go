// Package supervise keeps one Envoy running: it starts it, starts it again when it dies, and ends it gently when asked.
// Envoy cannot outlive it.
package supervise

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// Options says which Envoy to run and how.
type Options struct {
	Envoy     string   // the program: a path, or a name to find in PATH
	Bootstrap []byte   // the contents of its configuration file; must have an admin address
	Args      []string // further arguments

	// Drain is how long open connections may take to finish when the supervisor is asked to end.
	Drain time.Duration

	Output io.Writer // receives Envoy's log
	// Stdout receives what Envoy writes to its standard output, which is access logs that go to /dev/stdout. Nil throws it away.
	Stdout io.Writer
	Log    *slog.Logger
}

// Supervisor runs one Envoy at a time.
type Supervisor struct {
	Options

	running atomic.Pointer[envoy]
}

// New prepares a supervisor; Run starts it.
func New(o Options) *Supervisor { return &Supervisor{Options: o} }

// Run keeps Envoy running until ctx ends, then drains and ends it. It returns early only when the first start fails:
// then the options are wrong, and trying again would not help. A later death is answered with a restart.
func (s *Supervisor) Run(ctx context.Context) error {
	folder, err := s.writeBootstrap()
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)

	e, err := s.start(folder)
	if err != nil {
		return err
	}
	pause := newRestartPause()
	for {
		select {
		case <-ctx.Done():
			return s.end(e)
		case <-e.Done():
		}
		if pause.isFirst() && !e.cameUp() {
			return e.explain()
		}
		if e = s.restart(ctx, folder, e, pause); e == nil {
			return nil
		}
	}
}

// restart brings Envoy back after a pause, however often that takes. It returns nil when ctx ends first.
func (s *Supervisor) restart(ctx context.Context, folder string, dead *envoy, pause *restartPause) *envoy {
	lived := dead.lived()
	s.Log.Error("Envoy died", "how", dead.How(), "lived", lived.Round(time.Millisecond))
	for {
		wait := pause.next(lived)
		s.Log.Info("starting Envoy again", "in", wait.Round(time.Millisecond))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		e, err := s.start(folder)
		if err == nil {
			return e
		}
		s.Log.Error("Envoy could not be started", "error", err)
		lived = 0
	}
}

func (s *Supervisor) start(folder string) (*envoy, error) {
	e, err := startEnvoy(s.Options, folder)
	if err != nil {
		return nil, err
	}
	s.running.Store(e)
	s.Log.Info("Envoy started", "pid", e.Pid())
	return e, nil
}

func (s *Supervisor) end(e *envoy) error {
	s.Log.Info("ending Envoy", "drain", s.Drain)
	if s.Drain > 0 {
		e.drain(s.Drain, s.Log)
	}
	return e.terminate()
}

// Ready is nil when Envoy has its first configuration and accepts traffic; otherwise it says what is missing.
func (s *Supervisor) Ready(ctx context.Context) error {
	e := s.running.Load()
	if e == nil {
		return errNotStarted
	}
	return e.ready(ctx)
}

func (s *Supervisor) writeBootstrap() (folder string, err error) {
	if folder, err = os.MkdirTemp("", "mesh-agent-"); err != nil {
		return "", err
	}
	if err = os.WriteFile(filepath.Join(folder, bootstrapFile), s.Bootstrap, 0o600); err != nil {
		os.RemoveAll(folder)
		return "", err
	}
	return folder, nil
}
