package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/store/embedded"
)

// server is the ADS server under test, and where its configuration is written.
type server struct {
	address string
	pid     func() int // returns 0 if unknown
	writer  writer
	// restart restarts the server with its present configuration. It is nil if the server was not
	// started here.
	restart func(context.Context) error
	stop    func()
}

// openServer starts a server, or connects to a running one.
func openServer(ctx context.Context, o *options) (*server, error) {
	if o.ADS != "" {
		return foreign(ctx, o)
	}
	dir, err := os.MkdirTemp("", "pgmesh-scale-")
	if err != nil {
		return nil, err
	}
	s := &server{stop: func() { os.RemoveAll(dir) }}
	if err := s.start(ctx, o, dir); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *server) start(ctx context.Context, o *options, dir string) error {
	bin := o.bin
	if bin == "" {
		bin = dir
		fmt.Fprintln(os.Stderr, "building the programs …")
		if err := stack.Build(ctx, bin, "mcp-server", "discovery"); err != nil {
			return err
		}
	}
	if o.Source == "files" {
		return s.fromFiles(ctx, bin, dir)
	}
	return s.fromPostgres(ctx, bin, dir)
}

// fromFiles runs only discovery.
func (s *server) fromFiles(ctx context.Context, bin, dir string) error {
	files := filepath.Join(dir, "mesh")
	if err := os.Mkdir(files, 0o755); err != nil {
		return err
	}
	control, err := stack.NewFromDirectory(bin, dir, files)
	if err != nil {
		return err
	}
	s.writer = newDirectory(files)
	return s.run(ctx, control)
}

// fromPostgres runs Postgres, mcp-server and discovery.
func (s *server) fromPostgres(ctx context.Context, bin, dir string) error {
	postgres, err := embedded.Start(ctx, embedded.Options{})
	if err != nil {
		return err
	}
	s.alsoStop(postgres.Stop)
	control, err := stack.New(bin, dir, postgres.URL())
	if err != nil {
		return err
	}
	if err := s.run(ctx, control); err != nil {
		return err
	}
	s.writer, err = openDatabase(ctx, postgres.URL(), true)
	return err
}

func (s *server) run(ctx context.Context, control *stack.Stack) error {
	s.alsoStop(control.Stop)
	s.address, s.pid = control.XDS, control.Discovery.Pid
	s.restart = func(ctx context.Context) error {
		control.Discovery.Stop()
		if err := control.Discovery.Start(); err != nil {
			return err
		}
		return control.Discovery.Ready(ctx)
	}
	return control.Start(ctx)
}

// alsoStop adds a function to stop something, which runs before the earlier ones.
func (s *server) alsoStop(stop func()) {
	before := s.stop
	s.stop = func() { stop(); before() }
}

// foreign returns a server that was not started here.
func foreign(ctx context.Context, o *options) (*server, error) {
	s := &server{address: o.ADS, pid: func() int { return o.pid }, stop: func() {}}
	var err error
	switch {
	case o.postgres != "":
		s.writer, err = openDatabase(ctx, o.postgres, false)
	case o.configDir != "":
		s.writer = newDirectory(o.configDir)
	case o.changeCommand != "":
		s.writer = command(o.changeCommand)
	default:
		err = errors.New("nothing says how the configuration of the server at --ads is changed: give --postgres, --config-dir or --change-command")
	}
	return s, err
}
