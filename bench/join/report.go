package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// The aims. Every machine must meet them, not only most.
const (
	joinAim   = 2 * time.Second
	backAim   = time.Second
	memoryAim = 40e6 // bytes
)

type report struct {
	options *options
	all     []*member
	large   *member // in a mesh with many services; nil if not measured
	use     usage.Use
}

// print prints all measurements, and reports whether the aims were met.
func (r *report) print(out io.Writer) bool {
	fmt.Fprintf(out, "\n%d machines join one after the other, on %s\n\n%-46s %9s %9s %9s\n", len(r.all), usage.Processors(), "", "median", "p95", "max")
	met := r.times(out, "mesh-agent join until the first answer", joinAim, (*member).whole)
	r.times(out, "  mesh-agent join", 0, func(j *member) time.Duration { return j.join })
	r.times(out, "  mesh-agent run until Envoy is ready", 0, func(j *member) time.Duration { return j.ready })
	r.times(out, "  from then on until the first answer", 0, func(j *member) time.Duration { return j.answer })
	met = r.times(out, "kill -9 of Envoy until the next answer", backAim, func(j *member) time.Duration { return j.back }) && met
	met = r.bytes(out, fmt.Sprintf("memory of the agent (RSS), %s later", r.options.rest), memoryAim, func(j *member) int64 { return j.rss }) && met
	r.bytes(out, "  its share, with what it shares (PSS)", 0, func(j *member) int64 { return j.pss })
	if r.large != nil {
		fmt.Fprintf(out, "\nOne more, in a mesh of %d services more with %d endpoints each\n\n", r.options.services, endpoints)
		met = r.one(out, r.large) && met
	}
	fmt.Fprintf(out, "\nMachine meanwhile: %s\n", r.use)
	return met
}

// one prints the measurement of one machine.
func (r *report) one(out io.Writer, j *member) bool {
	for _, t := range []struct {
		what string
		took time.Duration
		aim  time.Duration
	}{{"mesh-agent join until the first answer", j.whole(), joinAim}, {"kill -9 of Envoy until the next answer", j.back, backAim}} {
		fmt.Fprintf(out, "%-46s %9s%s\n", t.what, milliseconds(t.took), verdict(t.took, t.aim, milliseconds))
	}
	fmt.Fprintf(out, "%-46s %9s%s\n%-46s %9s\n", "memory of the agent (RSS)", megabytes(j.rss), verdict(j.rss, memoryAim, megabytes),
		"  its share, with what it shares (PSS)", megabytes(j.pss))
	return j.whole() <= joinAim && j.back <= backAim && j.rss <= memoryAim
}

func (r *report) times(out io.Writer, what string, aim time.Duration, of func(*member) time.Duration) bool {
	return row(out, what, r.all, aim, of, milliseconds)
}

func (r *report) bytes(out io.Writer, what string, aim int64, of func(*member) int64) bool {
	return row(out, what, r.all, aim, of, megabytes)
}

// row prints one line, and reports whether the maximum is within the aim. An aim of 0 is none.
func row[N time.Duration | int64](out io.Writer, what string, all []*member, aim N, of func(*member) N, text func(N) string) bool {
	var found []time.Duration
	for _, j := range all {
		found = append(found, time.Duration(of(j)))
	}
	slices.Sort(found)
	at := func(p float64) N { return N(timing.Percentile(found, p)) }
	fmt.Fprintf(out, "%-46s %9s %9s %9s%s\n", what, text(at(50)), text(at(95)), text(at(100)), verdict(at(100), aim, text))
	return aim == 0 || at(100) <= aim
}

func verdict[N time.Duration | int64](most, aim N, text func(N) string) string {
	switch {
	case aim == 0:
		return ""
	case most <= aim:
		return "  (aim: " + text(aim) + ", met)"
	default:
		return "  (aim: " + text(aim) + ", MISSED)"
	}
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
