package main

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// result is everything that a run measured.
type result struct {
	At         time.Time `json:"at"`
	Commit     string    `json:"commit"` // of the sources
	Processors string    `json:"processors"`
	Machine    usage.Use `json:"machine"` // during the whole run
	Parameters *options  `json:"parameters"`

	FirstSync *firstSync `json:"first_sync,omitempty"`
	Changes   []changes  `json:"changes,omitempty"` // of a route, of an endpoint, new services
	Bulk      []bulk     `json:"bulk,omitempty"`
	Memory    *weight    `json:"memory,omitempty"`
	Envoy     *envoyRun  `json:"envoy,omitempty"`
}

// spread is a distribution of times, in milliseconds.
type spread struct {
	Mean float64 `json:"mean_ms"`
	P50  float64 `json:"p50_ms"`
	P95  float64 `json:"p95_ms"`
	P99  float64 `json:"p99_ms"`
	Max  float64 `json:"max_ms"`
}

func spreadOf(times []time.Duration) spread {
	if len(times) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(times))
	sum := time.Duration(0)
	for _, t := range sorted {
		sum += t
	}
	return spread{
		Mean: millis(sum) / float64(len(sorted)), P50: millis(timing.Percentile(sorted, 50)), P95: millis(timing.Percentile(sorted, 95)),
		P99: millis(timing.Percentile(sorted, 99)), Max: millis(timing.Percentile(sorted, 100)),
	}
}

// millis converts to milliseconds, rounded down to microseconds.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func allMillis(times []time.Duration) []float64 {
	all := make([]float64, len(times))
	for i, t := range times {
		all[i] = millis(t)
	}
	return all
}

const megabyte = 1 << 20

func megabytes(bytes int64) float64 { return math.Round(float64(bytes)/megabyte*100) / 100 }

func (r *result) write(file string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

// sources returns the commit of the sources, and whether they differ from it.
func sources() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
