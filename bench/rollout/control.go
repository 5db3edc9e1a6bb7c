package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgmesh/pgmesh/bench/world"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
	"github.com/pgmesh/pgmesh/store/embedded"
)

// control is a control plane, with a discovery that reports and one that does not. One of them runs
// at a time.
type control struct {
	*options

	dir       string
	postgres  *embedded.Server
	stack     *stack.Stack
	discovery map[bool]*discovery // by whether it reports
	db        *pgxpool.Pool
	writer    *world.Database
	world     *world.World
	number    int // of changes so far
}

// discovery is one of the two.
type discovery struct {
	*stack.Program

	name, xds string
}

// countFunctions has Postgres count calls of functions, in every turn.
var countFunctions = map[string]string{"track_functions": "pl"}

func startControl(ctx context.Context, o *options) (c *control, err error) {
	c = &control{options: o, discovery: map[bool]*discovery{}}
	if c.dir, err = os.MkdirTemp("/tmp", "pgmesh-rollout-"); err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func (c *control) start(ctx context.Context) (err error) {
	if c.postgres, err = embedded.Start(ctx, embedded.Options{Settings: countFunctions}); err != nil {
		return err
	}
	if c.stack, err = stack.New(c.bin, c.dir, c.postgres.URL()); err != nil {
		return err
	}
	if err := c.stack.MCPServer.Start(); err != nil {
		return err
	}
	if err := c.stack.MCPServer.Ready(ctx); err != nil {
		return err
	}
	for reports, name := range map[bool]string{true: "reporting", false: "quiet"} {
		p, xds, err := c.stack.Replica(ctx, name, fmt.Sprint("--report-proxies=", reports))
		if err != nil {
			return err
		}
		c.discovery[reports] = &discovery{p, name, xds}
	}
	c.db, err = pgxpool.New(ctx, c.postgres.URL())
	return err
}

func (c *control) stop() {
	if c.writer != nil {
		c.writer.Close()
	}
	if c.db != nil {
		c.db.Close()
	}
	for _, d := range c.discovery {
		d.Stop()
	}
	if c.stack != nil {
		c.stack.MCPServer.Stop()
	}
	if c.postgres != nil {
		c.postgres.Stop()
	}
	os.RemoveAll(c.dir)
}

// The mesh that bench-scale has.
const (
	endpoints  = 5
	namespaces = 20
)

// describe writes a mesh of so many services.
func (c *control) describe(ctx context.Context, services int) (err error) {
	c.world = &world.World{Services: services, Endpoints: endpoints, Namespaces: namespaces, Routes: true}
	if err := c.world.Lay(); err != nil {
		return err
	}
	if c.writer, err = world.Open(ctx, c.postgres.URL(), true); err != nil {
		return err
	}
	_, err = c.writer.Write(ctx, c.world.Resources())
	return err
}

// with starts the discovery that reports, or the other, has so many proxies connected to it, and
// calls do.
func (c *control) with(ctx context.Context, reports bool, proxies int, do func(*crowd) error) error {
	d := c.discovery[reports]
	if err := d.Start(); err != nil {
		return err
	}
	defer d.Stop()
	if err := d.Ready(ctx); err != nil {
		return err
	}
	all, err := join(ctx, c, d.xds, proxies)
	if err != nil {
		return err
	}
	defer all.leave()
	if reports {
		if err := c.shown(ctx, d, proxies); err != nil {
			return err
		}
	}
	return do(all)
}

// change is a number by which proxies know a change, and the route that has it.
func (c *control) change() (number int, changed world.Resource) {
	c.number++
	return c.number, c.world.Route(c.world.Turn(c.number), markOf(c.number))
}

// write makes a change, and returns its number and when it was committed.
func (c *control) write(ctx context.Context, all *crowd) (*target, time.Time, error) {
	number, changed := c.change()
	awaited := all.expect(number)
	start, err := c.writer.Write(ctx, []world.Resource{changed})
	return awaited, start, err
}

// used is the processor time of the programs so far.
type used struct{ discovery, server, postgres time.Duration }

func (c *control) used(reports bool) used {
	return used{usage.CPUOf(c.discovery[reports].Pid()), usage.CPUOf(c.stack.MCPServer.Pid()), usage.TreeCPUOf(c.postgres.PID())}
}

func (u used) since(before used) used {
	return used{u.discovery - before.discovery, u.server - before.server, u.postgres - before.postgres}
}
