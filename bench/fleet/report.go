package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/bench/timing"
)

// healing is how long after an outage machines that waited for the part may still arrive.
const healing = 10 * time.Second

func report(out io.Writer, o *options, c *control, f *fleet, m *meter, wrong []string) {
	fmt.Fprintf(out, "machines                      %d, %d of them there at the end\n", o.machines, len(f.wanted()))
	fmt.Fprintf(out, "came, went, changed or moved  %d times in %s (%.1f a second); %d could not leave in good order\n", f.acts.Load(), o.lasting, float64(f.acts.Load())/o.lasting.Seconds(), f.lost.Load())
	for _, k := range c.outages() {
		fmt.Fprintf(out, "killed                        %s at %s, back after %s\n", k.what, k.from.Format(time.TimeOnly), k.to.Sub(k.from).Round(time.Millisecond))
	}
	busy := m.busy()
	fmt.Fprintf(out, "\nwritten to Postgres, a second     median      p95      max  (%d seconds)\n", len(busy))
	row(out, "rows", busy, func(s second) float64 { return s.rows })
	row(out, "transactions", busy, func(s second) float64 { return s.commits })
	row(out, "log (kB)", busy, func(s second) float64 { return s.bytes / 1000 })
	all, calm := f.waits(c.outages())
	fmt.Fprintf(out, "\nfrom joining to the entry        p50      p99      max\n")
	waits(out, "while all is up", calm)
	waits(out, "always", all)
	f.slow(out)
	if reason, some := f.refused.Load().(string); some {
		fmt.Fprintf(out, "\nrefused: %s\n", reason)
	}
	fmt.Fprintln(out)
	if len(wrong) == 0 {
		fmt.Fprintln(out, "what stands in Postgres is exactly what has to stand there")
		return
	}
	fmt.Fprintf(out, "WRONG: %d machines\n", len(wrong))
	for _, w := range wrong[:min(len(wrong), 20)] {
		fmt.Fprintln(out, "  "+w)
	}
}

func row(out io.Writer, what string, seconds []second, of func(second) float64) {
	var all []float64
	for _, s := range seconds {
		all = append(all, of(s))
	}
	slices.Sort(all)
	at := func(p float64) float64 {
		if len(all) == 0 {
			return 0
		}
		return all[max(0, int(math.Ceil(p/100*float64(len(all))))-1)]
	}
	fmt.Fprintf(out, "  %-28s %8.0f %8.0f %8.0f\n", what, at(50), at(95), at(100))
}

// slowest is the longest wait that is not reported.
const slowest = 5 * time.Second

// slow prints when the machines arrived that waited longest.
func (f *fleet) slow(out io.Writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.joins) == 0 {
		return
	}
	var from, to time.Time
	n := 0
	told := func() {
		if n > 0 {
			fmt.Fprintf(out, "  %d waited longer than %s that came from %s on, until %s\n", n, slowest, from.Format(time.TimeOnly), to.Format(time.TimeOnly))
		}
	}
	slices.SortFunc(f.joins, func(a, b join) int { return a.begun.Compare(b.begun) })
	for _, j := range f.joins {
		switch end := j.begun.Add(j.took); {
		case j.took < slowest:
		case n > 0 && j.begun.Before(to):
			n++
			to = later(to, end)
		default:
			told()
			n, from, to = 1, j.begun, end
		}
	}
	told()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// waits returns how long machines waited for their entries: all, and those that came outside
// outages.
func (f *fleet) waits(outages []outage) (all, calm []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range f.joins {
		all = append(all, j.took)
		if !slices.ContainsFunc(outages, func(o outage) bool {
			return j.begun.Add(j.took).After(o.from) && j.begun.Before(o.to.Add(healing))
		}) {
			calm = append(calm, j.took)
		}
	}
	slices.Sort(all)
	slices.Sort(calm)
	return all, calm
}

func waits(out io.Writer, what string, all []time.Duration) {
	at := func(p float64) time.Duration { return timing.Percentile(all, p).Round(time.Millisecond) }
	fmt.Fprintf(out, "  %-26s %8s %8s %8s  (%d)\n", what, at(50), at(99), at(100), len(all))
}
