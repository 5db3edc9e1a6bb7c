// Bench measures what the product promises about speed, each against a floor or a peer in the same
// run: the minimum that the same machine needs for the same effect.
//
// The path of a change is from the COMMIT of a transaction in Postgres to the first HTTP answer by
// the new rule, through mcp-server, discovery and a real Envoy, each in its own process. The
// store's parts measure only Postgres and the feed.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/testbench/realenvoy"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
	"github.com/pgmesh/pgmesh/store/embedded"
)

type options struct {
	only            []string
	changes, warmup int
	resources       int
	fresh           int
	clients         int
	services        int
	rest            time.Duration
	writing         time.Duration
	envoy           string
	json            string
}

// parts lists what can be measured, in order.
var parts = []struct {
	name string
	run  func(context.Context, options) error
}{
	{"change", run},
	{"update", benchUpdates},
	{"large", benchLarge},
	{"writers", benchWriters},
	{"diff", benchDiff},
	{"fresh", benchFresh},
	{"clients", benchClients},
	{"lean", benchLean},
}

func main() {
	if err := measureAll(); err != nil {
		os.Exit(1)
	}
}

func measureAll() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := options{envoy: realenvoy.Binary("")}
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure what is promised, beside a floor", SilenceUsage: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runParts(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.only, "only", nil, "parts to run: change, update, large, writers, diff, fresh, clients, lean; all if empty")
	f.IntVar(&o.changes, "changes", 200, "changes to measure, and as many of the floor")
	f.IntVar(&o.warmup, "warmup", 20, "changes before the measurement begins")
	f.IntVar(&o.resources, "resources", 100_000, "resources of the large mesh")
	f.IntVar(&o.fresh, "fresh", 7, "fresh clients of each sort")
	f.IntVar(&o.clients, "clients", 1000, "clients that are connected at once")
	f.IntVar(&o.services, "services", 1000, "services of the mesh of which a lean proxy uses a few")
	f.DurationVar(&o.rest, "rest", 150*time.Second, "how long clients are idle before they are weighed; Go collects garbage every two minutes at least")
	f.DurationVar(&o.writing, "writing", time.Minute, "how long the writers write")
	f.StringVar(&o.json, "json", "", "also write each measured time of the change to this file")
	cmd.AddCommand(readerCommands()...)
	cmd.AddCommand(clientCommands()...)
	return cmd.ExecuteContext(ctx)
}

func runParts(ctx context.Context, o options) error {
	for _, p := range parts {
		if len(o.only) > 0 && !slices.Contains(o.only, p.name) {
			continue
		}
		if err := p.run(ctx, o); err != nil {
			return fmt.Errorf("measuring %s: %w", p.name, err)
		}
	}
	return nil
}

func run(ctx context.Context, o options) error {
	fmt.Fprintln(os.Stderr, "building the programs and starting Postgres, mcp-server, discovery and Envoy …")
	dir, remove, err := built(ctx, "mcp-server", "discovery")
	if err != nil {
		return err
	}
	defer remove()
	postgres, err := embedded.Start(ctx, embedded.Options{})
	if err != nil {
		return err
	}
	defer postgres.Stop()
	mesh, err := stack.New(dir, dir, postgres.URL())
	if err != nil {
		return err
	}
	defer mesh.Stop()
	if err := mesh.Start(ctx); err != nil {
		return err
	}
	times, err := compare(ctx, o, mesh, postgres, dir)
	if err != nil {
		return err
	}
	report(os.Stdout, times)
	return times.write(o.json)
}

// built compiles programs into a new folder.
func built(ctx context.Context, programs ...string) (dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp("", "pgmesh-bench-"); err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	if err := stack.Build(ctx, dir, programs...); err != nil {
		remove()
		return "", nil, err
	}
	return dir, remove, nil
}

// compare alternates changes of the product and of the floor, so that other load affects both
// alike.
func compare(ctx context.Context, o options, mesh *stack.Stack, postgres *embedded.Server, dir string) (*times, error) {
	floor, err := newFloor(ctx, postgres.URL())
	if err != nil {
		return nil, err
	}
	defer floor.close()
	product, err := newProduct(ctx, postgres.URL())
	if err != nil {
		return nil, err
	}
	defer product.close()
	routes, err := product.routes(ctx, mesh.XDS)
	if err != nil {
		return nil, err
	}
	floor.serve(routes)
	envoy, err := startEnvoy(o.envoy, dir, mesh.XDS, floor, routes.GetName())
	if err != nil {
		return nil, err
	}
	defer envoy.Kill()
	if err := answering(ctx, product, floor); err != nil {
		return nil, fmt.Errorf("%w\nEnvoy's log:\n%s", err, realenvoy.Log(dir))
	}

	t := times{}
	start := usage.Now()
	for i := range o.warmup + o.changes {
		p, err := product.change(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("change %d: %w", i, err)
		}
		f, err := floor.change(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("change %d of the floor: %w", i, err)
		}
		if i >= o.warmup {
			t.Product, t.Floor = append(t.Product, p), append(t.Floor, f)
		}
	}
	t.Machine = usage.Now().Since(start).String()
	t.Database, err = costOf(ctx, postgres.PID(), product.change, floor.change)
	return &t, err
}
