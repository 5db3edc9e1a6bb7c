package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/bench/host"
	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
	"github.com/pgmesh/pgmesh/store/embedded"
	"github.com/pgmesh/pgmesh/store/migration"
)

// startsWithin is when a start counts as failed.
const startsWithin = 5 * time.Minute

// measureStarts measures how long a bridge and a server with a database take to have all of a registry.
func (o *options) measureStarts(h *host.Host, out io.Writer, s sort) error {
	fmt.Fprintf(os.Stderr, "filling %s …\n", s.name)
	registry := s.start(h)
	registry.fill(o.services)
	if err := o.startBridge(h, out, s.name, registry); err != nil {
		return fmt.Errorf("a bridge: %w", err)
	}
	if err := o.startServer(h, out, s.name, registry); err != nil {
		return fmt.Errorf("a server with a database: %w", err)
	}
	return nil
}

// startBridge starts a bridge, and then a discovery.
func (o *options) startBridge(h *host.Host, out io.Writer, name string, registry elsewhere) error {
	bridge, err := stack.NewBridge(o.bin, h.TempDir(), registry.url())
	if err != nil {
		return err
	}
	bridge.ServerFlags("--registry-wait", startsWithin.String())
	defer bridge.Stop()
	for _, p := range []struct {
		name    string
		program *stack.Program
	}{{"a bridge", bridge.MCPServer}, {"then discovery", bridge.Discovery}} {
		took, err := untilReady(h.Context(), p.program)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s is ready after %.1f s (%.1f s of its own processor time), and weighs %s\n",
			name, p.name, took.Seconds(), usage.CPUOf(p.program.Pid()).Seconds(), weight(p.program))
	}
	return nil
}

// untilReady starts a program, and returns how long it took to be ready.
func untilReady(ctx context.Context, p *stack.Program) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, startsWithin)
	defer cancel()
	begun := time.Now()
	if err := p.Start(); err != nil {
		return 0, err
	}
	err := p.Ready(ctx)
	return time.Since(begun), err
}

// startServer starts a server twice: the second time the database has all of the registry already.
func (o *options) startServer(h *host.Host, out io.Writer, name string, registry elsewhere) error {
	database, err := embedded.Start(h.Context(), embedded.Options{})
	if err != nil {
		return err
	}
	h.Cleanup(database.Stop)
	if err := migration.Up(h.Context(), database.URL()); err != nil {
		return err
	}
	server, err := stack.New(o.bin, h.TempDir(), database.URL())
	if err != nil {
		return err
	}
	server.ServerFlags("--registry", registry.url(), "--registry-wait", startsWithin.String())
	h.Cleanup(server.MCPServer.Stop)
	conn, err := pgx.Connect(h.Context(), database.URL())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(h.Context()))
	for _, which := range []string{"a server with a database", "started again"} {
		server.MCPServer.Stop()
		begun := time.Now()
		took, err := untilReady(h.Context(), server.MCPServer)
		if err != nil {
			return err
		}
		if err := untilWhole(h.Context(), conn, o.services); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s is ready after %.1f s, in SQL after %.1f s, and weighs %s\n", name, which, took.Seconds(), time.Since(begun).Seconds(), weight(server.MCPServer))
	}
	return nil
}

// untilWhole waits until SQL has all services.
func untilWhole(ctx context.Context, conn *pgx.Conn, services int) error {
	ctx, cancel := context.WithTimeout(ctx, startsWithin)
	defer cancel()
	for {
		var whole bool
		err := conn.QueryRow(ctx, "SELECT count(*) = 1 AND coalesce(min(state) = 'current' AND min(resources) >= $1, false) FROM mesh.registries", services).Scan(&whole)
		if err != nil {
			return fmt.Errorf("wait until mesh.registries has all services: %w", err)
		}
		if whole {
			return nil
		}
		wait.For(ctx, 50*time.Millisecond)
	}
}
