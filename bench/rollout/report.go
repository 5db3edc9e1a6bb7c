package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/bench/timing"
)

// report prints tables, and counts the aims that were missed.
type report struct {
	out    io.Writer
	missed int
}

func newReport(out io.Writer) *report { return &report{out: out} }

func (r *report) printf(format string, args ...any) { fmt.Fprintf(r.out, format, args...) }

func (r *report) titlef(format string, args ...any) { r.printf("\n"+format+"\n\n", args...) }

func ratef(rate int) string { return fmt.Sprint(rate, " changes a second") }

// aim says whether an aim was met.
func (r *report) aim(what string, met bool) {
	verdict := "met"
	if !met {
		verdict = "MISSED"
		r.missed++
	}
	r.printf("  aim: %s: %s\n", what, verdict)
}

// costs prints a table of turns, each measure with reports beside its floor, without.
func (r *report) costs(rate string, turns []turn) {
	r.printf("%-44s %22s %22s %26s\n", rate+", medians of turns (range)", "with reports", "floor: without", "difference")
	for _, m := range []struct {
		name string
		of   func(turn) float64
	}{
		{"processor time of discovery a change, ms", func(t turn) float64 { return millis(t.each.discovery) }},
		{"processor time of mcp-server a change, ms", func(t turn) float64 { return millis(t.each.server) }},
		{"processor time of Postgres a change, ms", func(t turn) float64 { return millis(t.each.postgres) }},
		{"last proxy, median, ms", func(t turn) float64 { return millis(timing.Percentile(sorted(t.last), 50)) }},
		{"last proxy, 95 %, ms", func(t turn) float64 { return millis(timing.Percentile(sorted(t.last), 95)) }},
	} {
		r.compare("  "+m.name, pick(turns, true, m.of), pick(turns, false, m.of))
	}
	discovery, last := difference(turns, func(t turn) float64 { return millis(t.each.discovery) }), difference(turns, func(t turn) float64 { return millis(timing.Percentile(sorted(t.last), 50)) })
	r.aimOf("at most 1 % more processor time of discovery a change", discovery, 1)
	r.aimOf("the median of the last proxy no later, beyond the noise", last, 0)
	r.printf("\n")
}

func pick(turns []turn, reports bool, of func(turn) float64) (all []float64) {
	for _, t := range turns {
		if t.reports == reports {
			all = append(all, of(t))
		}
	}
	return all
}

// compare prints a line: both medians with their ranges, and how much the first is more.
func (r *report) compare(name string, with, without []float64) {
	show := func(all []float64) string {
		return fmt.Sprintf("%.2f (%.2f–%.2f)", middle(all), slices.Min(all), slices.Max(all))
	}
	difference := middle(with) - middle(without)
	share := "–"
	if middle(without) > 0 {
		share = fmt.Sprintf("%+.1f %%", 100*difference/middle(without))
	}
	r.printf("%-44s %22s %22s %15s %10s\n", name, show(with), show(without), fmt.Sprintf("%+.2f", difference), share)
}

// gap is how many percent more a measure is with reports than without, and how far off that may be.
type gap struct{ mean, doubt float64 }

// difference compares each turn with reports to the turn without that is next to it.
func difference(turns []turn, of func(turn) float64) gap {
	with, without := pick(turns, true, of), pick(turns, false, of)
	var all []float64
	sum := 0.0
	for i := range min(len(with), len(without)) {
		all = append(all, 100*(with[i]-without[i])/without[i])
		sum += all[i]
	}
	g := gap{mean: sum / float64(len(all)), doubt: math.Inf(1)}
	if len(all) < 2 {
		return g
	}
	squares := 0.0
	for _, one := range all {
		squares += (one - g.mean) * (one - g.mean)
	}
	const twoSided = 2 // standard errors, for about 95 of 100
	g.doubt = twoSided * math.Sqrt(squares/float64(len(all)-1)/float64(len(all)))
	return g
}

// aimOf says whether a gap is at most so many percent: met, missed, or hidden by the noise.
func (r *report) aimOf(what string, g gap, percent float64) {
	of := fmt.Sprintf("%s (%+.1f %% ± %.1f between turns next to each other)", what, g.mean, g.doubt)
	if g.mean > percent && g.mean-g.doubt <= percent {
		r.printf("  aim: %s: not to be told from the noise\n", of)
		return
	}
	r.aim(of, g.mean <= percent)
}

// seconds prints what Postgres does in a second.
func (r *report) seconds(all []second) {
	r.printf("%-44s %22s %22s %26s\n", "medians of turns (range)", "with reports", "floor: without", "difference")
	for _, m := range []struct {
		name string
		of   func(second) float64
	}{
		{"transactions of all sessions", second.ofCommits},
		{"messages of reports", second.ofMessages},
		{"rows written to tables of reports", second.ofRows},
		{"write-ahead log, kB", second.ofWAL},
		{"processor time, ms", second.ofCPU},
		{"last proxy, median, ms", second.ofLast},
	} {
		r.compare("  "+m.name, of(all, true, m.of), of(all, false, m.of))
	}
}

func of(seconds []second, reports bool, what func(second) float64) (all []float64) {
	for _, s := range seconds {
		if s.reports == reports {
			all = append(all, what(s))
		}
	}
	return all
}

func median(seconds []second, reports bool, what func(second) float64) float64 {
	return middle(of(seconds, reports, what))
}

// waitAim is within what time half of those who wait are to be told.
const waitAim = 20 * time.Millisecond

func (r *report) waits(ways []*way) {
	for _, w := range ways {
		r.times(w.name, w.after)
		r.times("  floor: nothing to wait for, from its call", w.floor)
		r.aim("half within 20 ms", timing.Percentile(sorted(w.after), 50) <= waitAim)
	}
}

// times prints a line of percentiles.
func (r *report) times(name string, all []time.Duration) {
	of := sorted(all)
	at := func(p float64) string { return fmt.Sprintf("%.1f ms", millis(timing.Percentile(of, p))) }
	r.printf("%-48s p50 %10s   p95 %10s   max %10s\n", name, at(50), at(95), at(100))
}

func sorted(all []time.Duration) []time.Duration { return slices.Sorted(slices.Values(all)) }

// middle is the median.
func middle(all []float64) float64 {
	of := slices.Sorted(slices.Values(all))
	if len(of)%2 == 1 {
		return of[len(of)/2]
	}
	return (of[len(of)/2-1] + of[len(of)/2]) / 2
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
