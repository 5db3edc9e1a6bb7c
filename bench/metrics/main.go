// Metrics measures what Istio's standard metrics and access logs cost: requests a second, latency
// and processor time of requests that go through two Envoys with mutual TLS between them, and the
// memory of an Envoy that counts for many services and many callers.
//
// The programs are pgmesh's own, with a real Postgres and real Envoys. What is compared is measured
// in turns, beside the same requests without any Envoy.
//
//	make bench-metrics FLAGS='--turns 60 --services 1000 --callers 20'
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/testbench/realenvoy"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

type options struct {
	only        []string
	modes       []string
	turns       int
	meshes      int
	lasting     time.Duration
	warmup      time.Duration
	connections int
	rate        int
	workers     int
	services    int
	callers     int
	rest        time.Duration
	envoy       string
	bin         string
}

func (o *options) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.only, "only", []string{"traffic", "memory"}, "what to measure, of traffic and memory")
	f.StringSliceVar(&o.modes, "modes", []string{"metrics", "logs", "both"}, "traffic: what to measure beside none of them")
	f.IntVar(&o.turns, "turns", 60, "traffic: how often each mode is measured, in turns")
	f.IntVar(&o.meshes, "meshes", 3, "traffic: how many meshes are measured in each mode, one turn after the other")
	f.DurationVar(&o.lasting, "for", 250*time.Millisecond, "traffic: how long each is measured at a turn, as fast as it goes and then at a fixed rate")
	f.DurationVar(&o.warmup, "warm-up", 50*time.Millisecond, "traffic: how long requests are sent before each turn")
	f.IntVar(&o.connections, "connections", 16, "traffic: how many connections ask at the same time")
	f.IntVar(&o.rate, "rate", 0, "traffic: requests a second at the fixed rate (default: half of what there are at first with neither metrics nor logs)")
	f.IntVar(&o.workers, "workers", 1, "worker threads of each Envoy")
	f.IntVar(&o.services, "services", 1000, "memory: how many services there are")
	f.IntVar(&o.callers, "callers", 20, "memory: how many workloads call each of them")
	f.DurationVar(&o.rest, "rest", 6*time.Second, "memory: how long after its requests an Envoy is weighed")
	f.StringVar(&o.envoy, "envoy", "", "path of Envoy (default: $ENVOY, or what make tools put into .tools)")
	f.StringVar(&o.bin, "bin", "", "folder with the programs (default: they are built)")
}

func main() {
	var o options
	o.flags(pflag.CommandLine)
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.check()
	if err == nil {
		err = judged(ctx, &o)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

func (o *options) check() (err error) {
	for _, name := range o.only {
		if name != "traffic" && name != "memory" {
			return fmt.Errorf("--only %s: expected some of traffic and memory", name)
		}
	}
	for _, name := range o.modes {
		if name == modes[0].name || !slices.ContainsFunc(modes, func(m mode) bool { return m.name == name }) {
			return fmt.Errorf("--modes %s: expected some of metrics, logs and both", name)
		}
	}
	for name, n := range map[string]int{
		"turns": o.turns, "meshes": o.meshes, "connections": o.connections, "workers": o.workers, "services": o.services, "callers": o.callers,
	} {
		if n < 1 {
			return fmt.Errorf("--%s %d: expected at least 1", name, n)
		}
	}
	if o.lasting <= 0 || o.warmup <= 0 || o.rate < 0 || o.rest < 0 {
		return fmt.Errorf("--for %s --warm-up %s --rate %d --rest %s: none of them can be less than nothing", o.lasting, o.warmup, o.rate, o.rest)
	}
	if o.envoy, err = filepath.Abs(realenvoy.Binary(o.envoy)); err != nil {
		return err
	}
	if _, err := os.Stat(o.envoy); err != nil {
		return fmt.Errorf("there is no Envoy to run: %w (make tools fetches one, --envoy names another)", err)
	}
	return nil
}

func judged(ctx context.Context, o *options) error {
	met, err := run(ctx, o, os.Stdout)
	if err == nil && !met {
		err = errors.New("the aim was missed")
	}
	return err
}

// run measures, and reports whether the aim was met.
func run(ctx context.Context, o *options, out io.Writer) (met bool, err error) {
	if o.bin == "" {
		if o.bin, err = os.MkdirTemp("", "bench-metrics-"); err != nil {
			return false, err
		}
		defer os.RemoveAll(o.bin)
		fmt.Fprintln(os.Stderr, "building the programs …")
		if err := stack.Build(ctx, o.bin, "mcp-server", "mcp-client", "discovery", "mesh-agent"); err != nil {
			return false, err
		}
	}
	met = true
	if slices.Contains(o.only, "traffic") {
		r, err := measureTraffic(ctx, o)
		if err != nil {
			return false, err
		}
		met = r.print(out)
	}
	if slices.Contains(o.only, "memory") {
		r, err := measureMemory(ctx, o)
		if err != nil {
			return false, err
		}
		r.print(out)
	}
	return met, nil
}
