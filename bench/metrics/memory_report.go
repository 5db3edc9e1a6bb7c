package main

import (
	"fmt"
	"io"

	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

type memoryReport struct {
	options *options
	all     []*scenario
	use     usage.Use
}

func (r *memoryReport) print(out io.Writer) {
	fmt.Fprintf(out, "\nMemory of an Envoy with %d workers of a machine that …: what it has allocated, and what is resident\n\n%-38s %20s %20s %20s %20s\n",
		r.options.workers, "", "without metrics", "metrics on", "all counted", "for each pair")
	for _, s := range r.all {
		fmt.Fprintf(out, "%-38s %20s %20s %20s %17.1f kB\n", s.what, s.without, s.idle, s.with, float64(s.with.allocated-s.idle.allocated)/float64(s.sets)/1e3)
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
