package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// aim is how many percent fewer requests a second there may be with metrics.
const aim = 10

type trafficReport struct {
	options *options
	rate    int
	turns   map[string][]turn
	use     usage.Use
}

// print prints all measurements, and reports whether the aim was met.
func (r *trafficReport) print(out io.Writer) bool {
	fmt.Fprintf(out, "\nRequests of HTTP/1.1 through two Envoys with %d workers each, mutual TLS between them, over %d connections,\n"+
		"%d turns of %s, on %s: medians of turns, and lowest to highest\n", r.options.workers, r.options.connections, r.options.turns, r.options.lasting, usage.Processors())
	r.table(out, "As fast as there are answers", func(t turn) sample { return t.fast })
	r.table(out, fmt.Sprintf("At %d requests a second", r.rate), func(t turn) sample { return t.fixed })
	lost := 100 * (1 - r.ratio("metrics", func(t turn) float64 { return t.fast.rate() }).median)
	fmt.Fprintf(out, "\nWith metrics there are %.1f%% fewer requests a second than with none (aim: under %d%%, %s)\nMachine meanwhile: %s\n",
		lost, aim, met(lost < aim), r.use)
	return lost < aim
}

func (r *trafficReport) table(out io.Writer, title string, of func(turn) sample) {
	fmt.Fprintf(out, "\n%s\n\n%-10s %22s %20s %9s %9s %23s %20s\n", title, "", "requests a second", "to none", "p50", "p99", "CPU of both Envoys", "to none")
	rate, each := func(t turn) float64 { return of(t).rate() }, func(t turn) float64 { return float64(of(t).each()) / 1e3 }
	at := func(p float64) func(turn) float64 {
		return func(t turn) float64 { return float64(timing.Percentile(of(t).took, p)) / 1e6 }
	}
	for _, name := range append([]string{floor}, names()...) {
		turns := r.turns[name]
		fmt.Fprintf(out, "%-10s %22s %20s %6.2f ms %6.2f ms %20s µs %20s\n", name, over(turns, rate).text("%.0f"), r.ratio(name, rate).text("%.3f"),
			over(turns, at(50)).median, over(turns, at(99)).median, over(turns, each).text("%.1f"), r.ratio(name, each).text("%.3f"))
	}
}

func names() (all []string) {
	for _, m := range modes {
		all = append(all, m.name)
	}
	return all
}

// ratio compares a mode with none, in the same turn.
func (r *trafficReport) ratio(name string, of func(turn) float64) spread {
	var all []float64
	for i, t := range r.turns[name] {
		all = append(all, of(t)/of(r.turns[modes[0].name][i]))
	}
	return spreadOf(all)
}

// spread is a measurement that was made several times.
type spread struct{ least, median, most float64 }

func over(turns []turn, of func(turn) float64) spread {
	var all []float64
	for _, t := range turns {
		all = append(all, of(t))
	}
	return spreadOf(all)
}

func spreadOf(all []float64) spread {
	slices.Sort(all)
	n := len(all)
	return spread{all[0], (all[(n-1)/2] + all[n/2]) / 2, all[n-1]}
}

func (s spread) text(format string) string {
	return fmt.Sprintf(format+" ("+format+"–"+format+")", s.median, s.least, s.most)
}

func met(yes bool) string {
	if yes {
		return "met"
	}
	return "MISSED"
}
