// Gatewayapi measures how gateways follow routes of the Gateway API, as gateway-api-bench does: how soon
// one route after the other is answered for, how soon the status of many is right, whether a request
// fails while a route is edited, and what an edit costs among very many. Routes are written as rows, and
// in a Kubernetes cluster. Each program is a process of its own, and the gateway is a real Envoy under
// its agent. The floor, in the same run, is how soon somebody else is told who only listens.
//
//	make bench-gateway-api
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/bench/host"
	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/testbench/realenvoy"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

type options struct {
	envoy, bin              string
	only, tests             []string
	routes, batchRoutes     int
	edits                   int
	largeRoutes, largeEdits int
}

func main() {
	var o options
	o.flags(pflag.CommandLine)
	pflag.Parse()
	if err := o.untilStopped(); err != nil {
		fmt.Fprintln(os.Stderr, "gatewayapi:", err)
		os.Exit(1)
	}
}

func (o *options) flags(f *pflag.FlagSet) {
	f.StringVar(&o.envoy, "envoy", realenvoy.Binary(""), "the program of Envoy")
	f.StringVar(&o.bin, "bin", "", "folder with the programs (default: they are built)")
	f.StringSliceVar(&o.only, "only", nil, "of "+strings.Join(names(), ",")+"; all without it")
	f.StringSliceVar(&o.tests, "tests", nil, "of "+strings.Join(allTests, ",")+"; all without it")
	f.IntVar(&o.routes, "routes", 3000, "routes to write one after the other")
	f.IntVar(&o.batchRoutes, "batch", 1000, "routes to write at once, until the status of all is right")
	f.IntVar(&o.edits, "edits", 20, "edits of one route under load")
	f.IntVar(&o.largeRoutes, "large", 5000, "routes of the large Gateway")
	f.IntVar(&o.largeEdits, "large-edits", 100, "edits of its routes, each of one")
}

func (o *options) untilStopped() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return o.run(ctx, os.Stdout)
}

func (o *options) check() error {
	for _, name := range o.only {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("--only %s is none of %s", name, strings.Join(names(), ", "))
		}
	}
	for _, name := range o.tests {
		if !slices.Contains(allTests, name) {
			return fmt.Errorf("--tests %s is none of %s", name, strings.Join(allTests, ", "))
		}
	}
	if min(o.routes, o.batchRoutes, o.edits, o.largeRoutes, o.largeEdits) < 1 || o.largeEdits > o.largeRoutes {
		return errors.New("--routes, --batch, --edits, --large and --large-edits have to be positive, and --large-edits at most --large")
	}
	return nil
}

func (o *options) run(ctx context.Context, out io.Writer) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	if o.bin == "" {
		if o.bin, err = os.MkdirTemp("", "gatewayapi"); err != nil {
			return err
		}
		defer os.RemoveAll(o.bin)
		fmt.Fprintln(os.Stderr, "building the programs …")
		if err := stack.Build(ctx, o.bin, "mcp-server", "discovery", "mesh-agent"); err != nil {
			return err
		}
	}
	syscall.Sync() // or the disk would write the programs while commits wait for it
	before := usage.Now()
	fmt.Fprintf(out, "\n%-60s %9s %9s %9s %9s %9s\n", "", "mean", "p50", "p90", "p99", "max")
	for _, w := range ways {
		if len(o.only) > 0 && !slices.Contains(o.only, w.name) {
			continue
		}
		if err := o.measure(ctx, out, w); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	fmt.Fprintf(out, "\nMachine meanwhile: %s\n", usage.Now().Since(before))
	return nil
}

// The tests, each with a mesh of its own.
const (
	testPropagation = "propagation"
	testStatus      = "status"
	testEdits       = "edits"
	testLarge       = "large"
)

var allTests = []string{testPropagation, testStatus, testEdits, testLarge}

// measure does all tests of one way to write routes.
func (o *options) measure(ctx context.Context, out io.Writer, w way) error {
	for _, test := range allTests {
		if len(o.tests) > 0 && !slices.Contains(o.tests, test) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s: %s …\n", w.name, test)
		w.statuses = test == testStatus
		if err := host.During(ctx, func(h *host.Host) error {
			m, err := o.startMesh(h, w)
			if err != nil {
				return err
			}
			err = o.test(h.Context(), out, m, w, test)
			if err != nil {
				err = fmt.Errorf("%w\n%s", err, m.logs())
			}
			return err
		}); err != nil {
			return fmt.Errorf("%s: %w", test, err)
		}
	}
	return nil
}

func (o *options) test(ctx context.Context, out io.Writer, m *mesh, w way, test string) error {
	switch test {
	case testPropagation:
		found, err := o.propagate(ctx, m)
		if err == nil {
			found.report(out, w.name+": a new route", w.aims)
		}
		return err
	case testStatus:
		found, err := o.batch(ctx, m)
		if err == nil {
			found.report(out, w.name, w.aims)
		}
		return err
	case testEdits:
		found, err := o.edit(ctx, m)
		if err == nil {
			found.report(out, w.name, w.aims)
		}
		return err
	default:
		found, err := o.editLarge(ctx, m)
		if err == nil {
			found.report(out, w.name, w.aims)
		}
		return err
	}
}

func line(out io.Writer, name string, all []time.Duration) {
	ordered := slices.Sorted(slices.Values(all))
	fmt.Fprintf(out, "%-60s %7.2fms", name, millis(mean(all)))
	for _, p := range []float64{50, 90, 99, 100} {
		fmt.Fprintf(out, " %7.2fms", millis(timing.Percentile(ordered, p)))
	}
	fmt.Fprintln(out)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
