// Registries measures how soon a change in a registry elsewhere is answered for: from the moment at
// which a client of Consul sends it to the first HTTP answer that follows from it, through a bridge,
// discovery and a real Envoy, each in its own process. The floor, measured for the same changes, is
// when Consul answers a client that waits for that service alone.
//
//	make bench-registries
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/testbench/realenvoy"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// aim is what half of all changes may take at most.
const aim = 30 * time.Millisecond

type options struct {
	consul, envoy   string
	changes, warmup int
	services        int
}

func main() {
	var o options
	pflag.StringVar(&o.consul, "consul", ".tools/bin/consul", "the program of Consul")
	pflag.StringVar(&o.envoy, "envoy", realenvoy.Binary(""), "the program of Envoy")
	pflag.IntVar(&o.changes, "changes", 100, "changes of each sort to measure")
	pflag.IntVar(&o.warmup, "warmup", 10, "changes before the measurement begins")
	pflag.IntVar(&o.services, "services", 1000, "other services of the catalog, with five instances each")
	pflag.Parse()
	if err := o.untilStopped(); err != nil {
		fmt.Fprintln(os.Stderr, "registries:", err)
		os.Exit(1)
	}
}

func (o *options) untilStopped() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return o.run(ctx, os.Stdout)
}

func (o *options) run(ctx context.Context, out io.Writer) error {
	folder, err := os.MkdirTemp("", "registries")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	fmt.Fprintln(os.Stderr, "building the programs and starting Consul, a bridge, discovery and Envoy …")
	if err := stack.Build(ctx, folder, "mcp-server", "discovery"); err != nil {
		return err
	}
	c, err := startConsul(ctx, o.consul, folder)
	if err != nil {
		return err
	}
	defer c.process.Kill()
	if err := c.fill(ctx, o.services); err != nil {
		return err
	}
	m, err := o.startMesh(ctx, c, folder)
	if err != nil {
		return err
	}
	defer m.stop()
	return o.measureAll(ctx, out, m)
}

// times are those of one sort of change.
type times struct {
	answered, told []time.Duration
}

func (o *options) measureAll(ctx context.Context, out io.Writer, m *mesh) error {
	before := usage.Now()
	fmt.Fprintf(out, "\nFrom a change in Consul to Envoy's first answer that follows from it, %d changes each, in a catalog of %d services\n\n", o.changes, o.services+1)
	fmt.Fprintf(out, "%-44s %8s %8s %8s %8s\n", "", "p50", "p95", "p99", "max")
	missed := false
	for _, s := range []struct {
		name         string
		change, undo step
	}{
		{"a check passes, of an instance that had failed", m.pass, m.fail},
		{"an instance is registered", m.register, m.deregister},
	} {
		t, err := o.measure(ctx, m, s.change, s.undo)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		line(out, s.name, t.answered)
		line(out, "  floor: Consul's own client is told", t.told)
		missed = missed || timing.Percentile(t.answered, 50) > aim
	}
	verdict := map[bool]string{false: "met", true: "MISSED"}
	fmt.Fprintf(out, "\nHalf of all changes within %s: %s\nMachine meanwhile: %s\n", aim, verdict[missed], usage.Now().Since(before))
	return nil
}

func line(out io.Writer, name string, all []time.Duration) {
	slices.Sort(all)
	fmt.Fprintf(out, "%-44s", name)
	for _, p := range []float64{50, 95, 99, 100} {
		fmt.Fprintf(out, " %6.2fms", float64(timing.Percentile(all, p))/float64(time.Millisecond))
	}
	fmt.Fprintln(out)
}
