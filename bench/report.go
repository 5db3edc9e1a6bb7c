package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/bench/timing"
)

// times are all samples of a run.
type times struct {
	Product, Floor []sample
	Database       databaseCost
	Machine        string // how quiet it was
}

func (t *times) write(file string) error {
	if file == "" {
		return nil
	}
	data, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// The aims: the median within twice the floor's, the 99th percentile within three times the
// floor's, and a Postgres that is idle while nothing changes.
const (
	aimRatio        = 2.0
	aimTailRatio    = 3.0
	aimIdleDatabase = 10 * time.Millisecond
)

func report(w io.Writer, t *times) {
	product, floor := answered(t.Product), answered(t.Floor)
	fmt.Fprintf(w, "\nFrom the COMMIT call to the first answer by the new rule, %d changes each, in turns\n\n", len(product))
	fmt.Fprintf(w, "%-34s %8s %8s %8s %8s\n", "", "p50", "p95", "p99", "max")
	row(w, "pgmesh", product)
	row(w, "floor: commit+NOTIFY+read, bare xDS", floor)
	row(w, "COMMIT itself, pgmesh", committed(t.Product))
	row(w, "COMMIT itself, floor", committed(t.Floor))
	median, tail := percentileRatio(product, floor, 50), percentileRatio(product, floor, 99)
	fmt.Fprintf(w, "\np50 is %.2f times the floor's (aim: within %.0f, %s); p99 is %.2f times the floor's (aim: within %.0f, %s)\n", median, aimRatio,
		met(median <= aimRatio), tail, aimTailRatio, met(tail <= aimTailRatio))
	t.Database.report(w)
	histogram(w, product)
	fmt.Fprintf(w, "\nMachine meanwhile: %s\n", t.Machine)
}

func percentileRatio(product, floor []time.Duration, p float64) float64 {
	return float64(timing.Percentile(product, p)) / float64(timing.Percentile(floor, p))
}

func row(w io.Writer, name string, sorted []time.Duration) {
	fmt.Fprintf(w, "%-34s %8s %8s %8s %8s\n", name, millis(timing.Percentile(sorted, 50)), millis(timing.Percentile(sorted, 95)),
		millis(timing.Percentile(sorted, 99)), millis(timing.Percentile(sorted, 100)))
}

func met(yes bool) string {
	if yes {
		return "met"
	}
	return "MISSED"
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.2fms", float64(d)/float64(time.Millisecond))
}

func answered(s []sample) []time.Duration {
	return sorted(s, func(x sample) time.Duration { return x.Answered })
}

func committed(s []sample) []time.Duration {
	return sorted(s, func(x sample) time.Duration { return x.Committed })
}

func sorted(s []sample, of func(sample) time.Duration) []time.Duration {
	d := make([]time.Duration, len(s))
	for i := range s {
		d[i] = of(s[i])
	}
	slices.Sort(d)
	return d
}

// histogram shows the distribution. A polling interval or a fixed delay would appear as a separate
// hump.
func histogram(w io.Writer, sorted []time.Duration) {
	const bins, width = 16, 50
	low, high := sorted[0], timing.Percentile(sorted, 99)
	step := max((high-low)/bins, time.Microsecond)
	counts := make([]int, bins+1)
	for _, d := range sorted {
		counts[min(int((d-low)/step), bins)]++
	}
	most := slices.Max(counts)
	for i, n := range counts {
		from := millis(low + time.Duration(i)*step)
		fmt.Fprintf(w, "%10s %4d %s\n", from, n, strings.Repeat("█", (n*width+most-1)/most))
	}
}
