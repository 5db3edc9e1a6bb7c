package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// aim is how many percent fewer requests a second there may be with metrics.
const aim = 10

type trafficReport struct {
	options *options
	rate    int // the fixed one
	lanes   []*lane
	use     usage.Use
}

// print prints all measurements, and reports whether the aim was met.
func (r *trafficReport) print(out io.Writer) bool {
	fmt.Fprintf(out, "\nRequests of HTTP/1.1 through two Envoys with %d workers each, mutual TLS between them, over %d connections,\n"+
		"%d turns of %s at %d meshes in each mode, on %s: medians of turns with their quartiles\n", r.options.workers, r.options.connections,
		r.options.turns, r.options.lasting, r.options.meshes, usage.Processors())
	r.table(out, "As fast as there are answers", fast)
	r.table(out, fmt.Sprintf("At %d requests a second", r.rate), func(t turn) sample { return t.fixed })
	met := !slices.Contains(r.options.modes, "metrics") || r.judge(out)
	fmt.Fprintf(out, "Machine meanwhile: %s\n", r.use)
	return met
}

// judge reports whether the aim was met.
func (r *trafficReport) judge(out io.Writer) bool {
	lost := 100 * (1 - r.rateOf("metrics", fast).median)
	fmt.Fprintf(out, "\nWith metrics there are %.1f%% fewer requests a second than with none (aim: under %d%%, %s), and the Envoys take %.1f%% more processor time for each\n",
		lost, aim, met(lost < aim), 100*(r.costOf("metrics", fast)-1))
	return lost < aim
}

func fast(t turn) sample { return t.fast }

func (r *trafficReport) table(out io.Writer, title string, of func(turn) sample) {
	fmt.Fprintf(out, "\n%s\n\n%-10s %24s %22s %10s %10s %19s %9s\n", title, "", "requests a second", "to none", "p50", "p99", "CPU of both Envoys", "to none")
	for _, l := range r.lanes {
		all := l.all(of)
		fmt.Fprintf(out, "%-10s %24s %22s %7.2f ms %7.2f ms %16.1f µs %9.3f\n", l.name,
			l.spread(func(t turn) float64 { return of(t).rate() }).text("%.0f"), r.rateOf(l.name, of).text("%.3f"),
			float64(timing.Percentile(all.took, 50))/1e6, float64(timing.Percentile(all.took, 99))/1e6, all.each()/1e3, r.costOf(l.name, of))
	}
}

// all is everything that was measured of a lane. The kernel counts processor time too coarsely for
// a single turn.
func (l *lane) all(of func(turn) sample) (all sample) {
	for _, t := range l.turns {
		s := of(t)
		all.took, all.wall, all.cpu = append(all.took, s.took...), all.wall+s.wall, all.cpu+s.cpu
	}
	slices.Sort(all.took)
	return all
}

// each is the processor time of both Envoys for a request, in nanoseconds.
func (s sample) each() float64 { return float64(s.cpu) / math.Max(1, float64(len(s.took))) }

func (l *lane) spread(of func(turn) float64) spread {
	var all []float64
	for _, t := range l.turns {
		all = append(all, of(t))
	}
	return spreadOf(all)
}

// rateOf compares the rate of a lane with that of none, in the same turn.
func (r *trafficReport) rateOf(name string, of func(turn) sample) spread {
	var all []float64
	for i, t := range r.of(name).turns {
		all = append(all, of(t).rate()/of(r.of(modes[0].name).turns[i]).rate())
	}
	return spreadOf(all)
}

// costOf compares the processor time of a lane with that of none.
func (r *trafficReport) costOf(name string, of func(turn) sample) float64 {
	return r.of(name).all(of).each() / r.of(modes[0].name).all(of).each()
}

// spread is the median of a measurement with its quartiles.
type spread struct{ low, median, high float64 }

func spreadOf(all []float64) spread {
	slices.Sort(all)
	n := len(all)
	return spread{all[(n-1)/4], (all[(n-1)/2] + all[n/2]) / 2, all[n-1-(n-1)/4]}
}

func (s spread) text(format string) string {
	return fmt.Sprintf(format+" ("+format+"–"+format+")", s.median, s.low, s.high)
}

func met(yes bool) string {
	if yes {
		return "met"
	}
	return "MISSED"
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
}
