package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func quick(t *testing.T) *options {
	t.Helper()
	var o options
	o.flags(pflag.NewFlagSet("metrics", pflag.ContinueOnError))
	o.turns, o.meshes, o.lasting, o.connections, o.services, o.callers, o.rest = 2, 1, 50*time.Millisecond, 2, 3, 2, 0
	o.modes = []string{"both"}
	return &o
}

// A run with little of everything gets through, and every request is counted.
func TestQuickRun(t *testing.T) {
	t.Chdir("../..") // the programs are built from the other module
	o := quick(t)
	require.NoError(t, o.check())
	var out strings.Builder
	_, err := run(t.Context(), o, &out) // a run this short judges nothing
	require.NoError(t, err)
	for _, said := range []string{
		"As fast as there are answers", "requests a second", "no Envoys ", "none ", "both ",
		"serves 1 service to 2 callers", "serves 3 services to 2 callers", "calls 3 services", "The page of its agent",
	} {
		require.Contains(t, out.String(), said)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Chdir("../..")
	for said, change := range map[string]func(*options){
		"--only all":      func(o *options) { o.only = []string{"all"} },
		"--modes none":    func(o *options) { o.modes = []string{"none"} },
		"--turns 0":       func(o *options) { o.turns = 0 },
		"--meshes 0":      func(o *options) { o.meshes = 0 },
		"--for 0s":        func(o *options) { o.lasting = 0 },
		"no Envoy to run": func(o *options) { o.envoy = "/nowhere" },
	} {
		o := quick(t)
		change(o)
		require.ErrorContains(t, o.check(), said)
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	require.Equal(t, spread{1, 2, 4}, spreadOf([]float64{4, 1, 2}))
	require.Equal(t, spread{2, 3, 4}, spreadOf([]float64{4, 1, 2, 5, 3}))
	require.Equal(t, "2.5 (1.0–4.0)", spread{1, 2.5, 4}.text("%.1f"))
}

// What differs from turn to turn for all modes alike is in no ratio.
func TestRatioIsOfTheSameTurn(t *testing.T) {
	t.Parallel()
	answers := func(n int, cpu time.Duration) turn {
		return turn{fast: sample{answered: answered{took: make([]time.Duration, n), wall: time.Second}, cpu: cpu}}
	}
	r := trafficReport{lanes: []*lane{
		{name: "none", turns: []turn{answers(100, 100), answers(1000, 1000)}},
		{name: "metrics", turns: []turn{answers(80, 88), answers(800, 880)}},
	}}
	require.Equal(t, spread{0.8, 0.8, 0.8}, r.rateOf("metrics", fast))
	require.InDelta(t, 1.1, r.costOf("metrics", fast), 1e-9)
	var said strings.Builder
	require.False(t, r.judge(&said))
	require.Equal(t, "\nWith metrics there are 20.0% fewer requests a second than with none (aim: under 10%, MISSED), and the Envoys take 10.0% more processor time for each\n", said.String())
}

// The page tells standard metrics from Envoy's own, and how much could not be counted.
func TestPageIsCounted(t *testing.T) {
	t.Parallel()
	var p page
	for _, line := range []string{
		"# TYPE istio_requests_total counter", `istio_requests_total{reporter="source"} 3`, `istio_request_bytes_bucket{le="1"} 3`, `istio_request_bytes_count{} 3`,
		`istio_request_bytes_sum{} 3`, "envoy_server_stats_overflow_histogram{} 40", "envoy_server_stats_overflow_counter{} 2", "envoy_cluster_upstream_rq_total{} 9",
	} {
		require.NoError(t, p.add([]byte(line)))
	}
	require.Equal(t, page{counters: 1, histograms: 1, lost: 42}, p)
	require.Error(t, p.add([]byte("envoy_server_stats_overflow_counter{} many")))
}
