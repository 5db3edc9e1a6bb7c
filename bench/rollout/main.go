// Rollout measures what it costs to know which revision each proxy runs, and how soon it is known:
// processor time of discovery, mcp-server and Postgres with reports and without, in turns; writes
// under load and at rest; how soon after the last proxy's answer those who wait are told; and how
// soon mesh.proxies is exact again when discovery was killed.
//
// The programs are pgmesh's own, with a real Postgres. The proxies are simulated and make the
// requests of Envoys.
//
//	make bench-rollout FLAGS='--only cost,wait'
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

func main() {
	var o options
	o.flags(pflag.CommandLine)
	pflag.Parse()
	if o.quick {
		o.hurry()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.check()
	if err == nil {
		err = run(ctx, &o, newReport(os.Stdout))
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rollout:", err)
		os.Exit(1)
	}
}

// gcPercent makes the proxies collect garbage rarely, since the programs are what is measured.
const gcPercent = 400

var errMissed = errors.New("an aim was missed")

// part is one of the measurements.
type part struct {
	name    string
	measure func(context.Context, *control, *report) error
}

var parts = []part{{"cost", cost}, {"load", load}, {"idle", idle}, {"wait", waits}, {"restart", restarts}}

func run(ctx context.Context, o *options, r *report) error {
	debug.SetGCPercent(gcPercent)
	if o.bin == "" {
		built, err := build(ctx)
		if err != nil {
			return err
		}
		defer os.RemoveAll(built)
		o.bin = built
	}
	start := usage.Now()
	for _, p := range parts {
		if !slices.Contains(o.only, p.name) {
			continue
		}
		sayf("%s …", p.name)
		if err := o.with(ctx, p, r); err != nil {
			return fmt.Errorf("measuring %s: %w", p.name, err)
		}
	}
	r.printf("\n%s; machine meanwhile: %s\n", usage.Processors(), usage.Now().Since(start))
	if o.strict && r.missed > 0 {
		return errMissed
	}
	return nil
}

// build builds the programs into a new folder.
func build(ctx context.Context) (into string, err error) {
	if into, err = os.MkdirTemp("/tmp", "pgmesh-rollout-bin-"); err != nil {
		return "", err
	}
	sayf("building the programs …")
	return into, stack.Build(ctx, into, "mcp-server", "discovery", "mcp-client")
}

// with measures a part with a control plane of its own.
func (o *options) with(ctx context.Context, p part, r *report) error {
	c, err := startControl(ctx, o)
	if err != nil {
		return err
	}
	defer c.stop()
	return p.measure(ctx, c, r)
}

// sayf prints progress.
func sayf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
