package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/bench/world"
	"github.com/pgmesh/pgmesh/internal/kit/wait"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// way is one way to wait until all proxies run a change.
type way struct {
	name string
	// run makes a change and waits.
	run func(context.Context, world.Resource) error
	// idle does the same where there is nothing to wait for.
	idle func(context.Context, world.Resource) error

	after []time.Duration // from the last proxy's answer to the return
	floor []time.Duration
}

// waits measures how soon after the last proxy's answer those who wait are told.
func waits(ctx context.Context, c *control, r *report) error {
	if err := c.describe(ctx, c.services); err != nil {
		return err
	}
	conn, err := grpc.NewClient(c.stack.MCP, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ways := []*way{c.byRPC(adminv1.NewProxyServiceClient(conn)), c.bySQL(), c.byCommand()}
	err = c.with(ctx, true, c.proxies, func(all *crowd) error {
		for i := range warmups + c.waits {
			for _, w := range ways {
				if err := c.once(ctx, all, w, i >= warmups); err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.titlef("From the last proxy's answer to the return of who waits, %d services and %d proxies, %d times each", c.services, c.proxies, c.waits)
	r.printf("%s of rest before each change\n\n", c.pause)
	r.waits(ways)
	return nil
}

// once waits once, and does the same once more without anything to wait for.
func (c *control) once(ctx context.Context, all *crowd, w *way, counts bool) error {
	wait.For(ctx, c.pause/2+rand.N(c.pause+1))
	timing.Settle()
	number, changed := c.change()
	awaited := all.expect(number)
	if err := w.run(ctx, changed); err != nil {
		return err
	}
	returned := time.Now()
	last, err := awaited.wait(ctx)
	if err != nil {
		return err
	}
	timing.Settle()
	start := time.Now()
	if err := w.idle(ctx, changed); err != nil {
		return err
	}
	if counts {
		w.after, w.floor = append(w.after, returned.Sub(last)), append(w.floor, time.Since(start))
	}
	return nil
}

func (c *control) byRPC(client adminv1.ProxyServiceClient) *way {
	until := func(ctx context.Context) error {
		stream, err := client.WaitUntilRun(ctx, &adminv1.WaitUntilRunRequest{})
		for err == nil {
			var told *adminv1.WaitUntilRunResponse
			if told, err = stream.Recv(); err == nil && told.GetOutcome() != adminv1.WaitUntilRunResponse_OUTCOME_UNSPECIFIED {
				if told.GetOutcome() != adminv1.WaitUntilRunResponse_OUTCOME_DONE {
					return fmt.Errorf("it ended with %s", told)
				}
				return nil
			}
		}
		return err
	}
	return &way{name: "WaitUntilRun", idle: func(ctx context.Context, _ world.Resource) error { return until(ctx) }, run: func(ctx context.Context, changed world.Resource) error {
		if _, err := c.writer.Write(ctx, []world.Resource{changed}); err != nil {
			return err
		}
		return until(ctx)
	}}
}

func (c *control) bySQL() *way {
	until := func(ctx context.Context) error {
		var runs int
		return c.db.QueryRow(ctx, "SELECT mesh.wait()").Scan(&runs)
	}
	return &way{name: "SELECT mesh.wait()", idle: func(ctx context.Context, _ world.Resource) error { return until(ctx) }, run: func(ctx context.Context, changed world.Resource) error {
		if _, err := c.writer.Write(ctx, []world.Resource{changed}); err != nil {
			return err
		}
		return until(ctx)
	}}
}

// byCommand runs the command line. It applies the same once more, which changes nothing, and so
// does not wait.
func (c *control) byCommand() *way {
	apply := func(ctx context.Context, changed world.Resource) error {
		cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "mcp-client"), "--server", c.stack.MCP, "--insecure", "apply", "-f", "-", "--wait")
		cmd.Stdin = strings.NewReader(changed.Document())
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	}
	return &way{name: "mcp-client apply --wait", run: apply, idle: apply}
}
