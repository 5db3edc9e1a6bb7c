// Registries measures how soon a change in a registry elsewhere is answered for: from the moment at
// which somebody else's client sends it to the first HTTP answer that follows from it, through a bridge,
// discovery and a real Envoy, each in its own process. The floor, measured for the same changes, is
// when a client of the registry's own is told that waits for that service alone.
//
//	make bench-registries
//
// With --starts it measures how long a bridge, and a server with a database, take to have all of a
// large registry.
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

// aim is what half of all changes may take at most.
const aim = 30 * time.Millisecond

type options struct {
	envoy           string
	only            []string
	changes, warmup int
	services        int
	starts          bool
	bin             string
}

func main() {
	var o options
	pflag.StringVar(&o.envoy, "envoy", realenvoy.Binary(""), "the program of Envoy")
	pflag.StringVar(&o.bin, "bin", "", "folder with the programs (default: they are built)")
	pflag.StringSliceVar(&o.only, "only", nil, "of "+strings.Join(names(), ",")+"; all without it")
	pflag.IntVar(&o.changes, "changes", 100, "changes of each sort to measure")
	pflag.IntVar(&o.warmup, "warmup", 10, "changes before the measurement begins")
	pflag.IntVar(&o.services, "services", 1000, "other services of the registry, with five instances each")
	pflag.BoolVar(&o.starts, "starts", false, "measure starts, of a bridge and of a server with a database, in place of changes")
	pflag.Parse()
	if err := o.untilStopped(); err != nil {
		fmt.Fprintln(os.Stderr, "registries:", err)
		os.Exit(1)
	}
}

func names() (all []string) {
	for _, s := range sorts {
		all = append(all, s.name)
	}
	return all
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
	if o.changes < 1 || o.warmup < 0 || o.services < 0 {
		return errors.New("--changes has to be positive, and --warmup and --services not negative")
	}
	return nil
}

func (o *options) run(ctx context.Context, out io.Writer) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	if o.bin == "" {
		if o.bin, err = os.MkdirTemp("", "registries"); err != nil {
			return err
		}
		defer os.RemoveAll(o.bin)
		fmt.Fprintln(os.Stderr, "building the programs …")
		if err := stack.Build(ctx, o.bin, "mcp-server", "discovery"); err != nil {
			return err
		}
	}
	return o.measureEach(ctx, out)
}

func (o *options) measureEach(ctx context.Context, out io.Writer) error {
	before := usage.Now()
	o.title(out)
	missed := false
	for _, s := range sorts {
		if len(o.only) > 0 && !slices.Contains(o.only, s.name) {
			continue
		}
		err := host.During(ctx, func(h *host.Host) error {
			if o.starts {
				return o.measureStarts(h, out, s)
			}
			return o.measureAll(h, out, s, &missed)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if !o.starts {
		verdict := map[bool]string{false: "met", true: "MISSED"}
		fmt.Fprintf(out, "\nHalf of all changes within %s: %s\n", aim, verdict[missed])
	}
	fmt.Fprintf(out, "Machine meanwhile: %s\n", usage.Now().Since(before))
	return nil
}

func (o *options) title(out io.Writer) {
	if o.starts {
		fmt.Fprintf(out, "\nStarts with a registry of %d services of %d instances\n\n", o.services, each)
		return
	}
	fmt.Fprintf(out, "\nFrom a change to Envoy's first answer that follows from it, %d changes each, beside %d other services\n\n", o.changes, o.services)
	fmt.Fprintf(out, "%-60s %8s %8s %8s %8s\n", "", "p50", "p90", "p99", "max")
}

// times are those of one sort of change.
type times struct {
	answered, told []time.Duration
}

func (o *options) measureAll(h *host.Host, out io.Writer, s sort, missed *bool) error {
	fmt.Fprintf(os.Stderr, "starting %s, a bridge, discovery and Envoy …\n", s.name)
	registry := s.start(h)
	registry.fill(o.services)
	m, err := o.startMesh(h, registry)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: the bridge weighs %s, discovery %s\n", s.name, weight(m.stack.MCPServer), weight(m.stack.Discovery))
	for _, in := range m.turns(s) {
		t, err := o.measure(h.Context(), m, in)
		if err != nil {
			return fmt.Errorf("%s: %w", in.name, err)
		}
		line(out, s.name+": "+in.name, t.answered)
		line(out, "  floor: a client of its own is told", t.told)
		*missed = *missed || timing.Percentile(t.answered, 50) > aim
	}
	return nil
}

// weight is what a program has in memory.
func weight(p *stack.Program) string {
	m := usage.MemoryOf(p.Pid())
	return fmt.Sprintf("%.1f MB (%.1f MB at most)", float64(m.Now)/1e6, float64(m.Peak)/1e6)
}

func line(out io.Writer, name string, all []time.Duration) {
	slices.Sort(all)
	fmt.Fprintf(out, "%-60s", name)
	for _, p := range []float64{50, 90, 99, 100} {
		fmt.Fprintf(out, " %6.2fms", float64(timing.Percentile(all, p))/float64(time.Millisecond))
	}
	fmt.Fprintln(out)
}
