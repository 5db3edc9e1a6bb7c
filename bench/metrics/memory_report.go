package main

import (
	"fmt"
	"io"
	"time"

	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

type memoryReport struct {
	options *options
	all     []*scenario
	use     usage.Use
}

func (r *memoryReport) print(out io.Writer) {
	fmt.Fprintf(out, "\nMemory of an Envoy with %d workers of a machine that …: what it has allocated, and what is resident\n\n%-38s %20s %20s %20s %20s\n",
		r.options.workers, "", "without metrics", "metrics on", "all counted", "a series set")
	for _, s := range r.all {
		fmt.Fprintf(out, "%-38s %20s %20s %20s %18s\n", s.what, s.without, s.idle, s.with, kilobytes(s.with.allocated-s.idle.allocated, s.page.sets()))
	}
	fmt.Fprintf(out, "\nThe page of its agent\n\n%-38s %9s %11s %9s %9s %9s %10s %10s %10s %10s\n",
		"", "counters", "histograms", "lost", "lines", "size", "takes", "CPU Envoy", "CPU agent", "agent")
	for _, s := range r.all {
		p := s.page
		fmt.Fprintf(out, "%-38s %9d %11d %9d %9d %9s %10s %10s %10s %10s\n", s.what, p.counters, p.histograms, p.lost, p.lines, megabytes(int64(p.bytes)),
			milliseconds(p.took), milliseconds(p.envoy), milliseconds(p.agent), megabytes(p.peak))
	}
	fmt.Fprintf(out, "\nLost are values of series above the bounds of a proxy, and the last column is the most memory that the agent had meanwhile.\nMachine meanwhile: %s\n", r.use)
}

func (w weight) String() string { return megabytes(w.allocated) + ", " + megabytes(w.resident) }

// sets is of how many workloads and services the page tells.
func (p page) sets() int { return max(1, p.counters) }

func kilobytes(n int64, of int) string {
	return fmt.Sprintf("%.1f kB", float64(n)/float64(of)/1e3)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
}
