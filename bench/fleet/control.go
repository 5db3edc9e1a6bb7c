package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/store/embedded"
)

// control is a control plane: Postgres, mcp-server and two discoveries.
type control struct {
	dir      string
	postgres *embedded.Server
	stack    *stack.Stack
	second   *stack.Program
	at       []string // the addresses of the discoveries
	db       *pgxpool.Pool

	mu     sync.Mutex
	killed []outage
}

// outage is a time in which a part was down.
type outage struct {
	what     string
	from, to time.Time
}

func startControl(ctx context.Context, o *options) (c *control, err error) {
	c = &control{}
	if c.dir, err = os.MkdirTemp("/tmp", "pgmesh-fleet-"); err != nil {
		return nil, err
	}
	if err := c.start(ctx, o); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func (c *control) start(ctx context.Context, o *options) (err error) {
	bin := o.bin
	if bin == "" {
		bin = c.dir
		fmt.Fprintln(os.Stderr, "building the programs …")
		if err := stack.Build(ctx, bin, "mcp-server", "discovery"); err != nil {
			return err
		}
	}
	if err := c.startPostgres(ctx, 0); err != nil {
		return err
	}
	if c.stack, err = stack.New(bin, c.dir, c.postgres.URL()); err != nil {
		return err
	}
	c.stack.ServerFlags("--workload-grace", o.grace.String())
	c.stack.DiscoveryFlags("--name", "first")
	if err := c.stack.Start(ctx); err != nil {
		return err
	}
	var xds string
	if c.second, xds, err = c.stack.Replica(ctx, "second"); err != nil {
		return err
	}
	c.at = []string{c.stack.XDS, xds}
	if err := c.second.Start(); err != nil {
		return err
	}
	if c.db, err = pgxpool.New(ctx, c.postgres.URL()); err != nil {
		return err
	}
	return c.second.Ready(ctx)
}

// startPostgres starts Postgres on the existing data. As in production, it commits to the disk.
func (c *control) startPostgres(ctx context.Context, port int) (err error) {
	c.postgres, err = embedded.Start(ctx, embedded.Options{DataDir: filepath.Join(c.dir, "postgres"), Port: port})
	return err
}

func (c *control) stop() {
	if c.db != nil {
		c.db.Close()
	}
	if c.second != nil {
		c.second.Stop()
	}
	if c.stack != nil {
		c.stack.Stop()
	}
	if c.postgres != nil {
		c.postgres.Stop()
	}
	os.RemoveAll(c.dir)
}

func (c *control) discoveries() []string { return c.at }

// The namespace and the group of all machines.
const (
	namespace = "fleet"
	group     = "machines"
)

// describe writes the group of the machines and their service.
func (c *control) describe(ctx context.Context) error {
	for kind, spec := range map[string]string{
		"WorkloadGroup": `{"metadata": {"labels": {"app": "fleet"}}, "template": {"serviceAccount": "fleet", "ports": {"http": 8080}}, "probe": {"tcpSocket": {"port": 8080}}}`,
		"ServiceEntry": `{"hosts": ["fleet.mesh"], "location": "MESH_INTERNAL", "resolution": "STATIC", "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}],
			"workloadSelector": {"labels": {"app": "fleet"}}}`,
	} {
		if _, err := c.db.Exec(ctx, `INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ($1, $2, $3, $4)`, kind, namespace, group, spec); err != nil {
			return err
		}
	}
	return nil
}

// away is how long a killed part stays down.
const away = 3 * time.Second

// faults kills one part after the other. It restarts every part even if the context has ended.
func (c *control) faults(ctx context.Context, o *options) error {
	lasting := context.WithoutCancel(ctx)
	begun := time.Now()
	for i, f := range []struct {
		wanted bool
		what   string
		do     func(context.Context) error
	}{
		{o.killDiscovery, "discovery", func(ctx context.Context) error { return restart(ctx, c.stack.Discovery) }},
		{o.killServer, "mcp-server", func(ctx context.Context) error { return restart(ctx, c.stack.MCPServer) }},
		{o.killPostgres, "Postgres", c.restartPostgres},
	} {
		if !wait.For(ctx, time.Until(begun.Add(o.lasting*time.Duration(i+1)/4))) {
			return nil
		}
		if !f.wanted {
			continue
		}
		from := time.Now()
		if err := f.do(lasting); err != nil {
			return err
		}
		c.mu.Lock()
		c.killed = append(c.killed, outage{f.what, from, time.Now()})
		c.mu.Unlock()
		fmt.Fprintf(os.Stderr, "%s was killed, and is back after %s\n", f.what, time.Since(from).Round(time.Millisecond))
	}
	<-ctx.Done()
	return nil
}

func restart(ctx context.Context, p *stack.Program) error {
	p.Kill()
	wait.For(ctx, away)
	if err := p.Start(); err != nil {
		return err
	}
	return p.Ready(ctx)
}

func (c *control) restartPostgres(ctx context.Context) error {
	if err := syscall.Kill(c.postgres.PID(), syscall.SIGKILL); err != nil {
		return err
	}
	<-c.postgres.Done()
	wait.For(ctx, away)
	return c.startPostgres(ctx, c.postgres.Port())
}

// outages returns the outages so far.
func (c *control) outages() []outage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]outage(nil), c.killed...)
}
