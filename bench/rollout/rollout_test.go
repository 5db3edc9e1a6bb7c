package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// A run with few of everything gets through, and prints every table.
func TestQuickRun(t *testing.T) {
	t.Chdir("../..") // the programs are built from the other module
	var o options
	o.flags(pflag.NewFlagSet("rollout", pflag.ContinueOnError))
	o.hurry()
	require.NoError(t, o.check())
	var out strings.Builder
	require.NoError(t, run(t.Context(), &o, newReport(&out)))
	for _, said := range []string{
		"20 services and 10 proxies, 1 turns each with reports and without", "10 changes a second, medians of turns", "last proxy, 95 %, ms",
		"messages of reports", "nothing happens", "WaitUntilRun", "SELECT mesh.wait()", "mcp-client apply --wait", "until mesh.proxies shows all exactly",
	} {
		require.Contains(t, out.String(), said)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	var o options
	o.flags(pflag.NewFlagSet("rollout", pflag.ContinueOnError))
	require.NoError(t, o.check())
	o.only = []string{"cost", "everything"}
	require.ErrorContains(t, o.check(), "--only everything")
	o.only, o.turns = []string{"cost"}, 0
	require.ErrorContains(t, o.check(), "--turns 0")
}

func TestNewestMark(t *testing.T) {
	t.Parallel()
	for text, newest := range map[string]int{
		"": 0, "change-": 0, "change-000001": 0, "x" + markOf(12) + "y": 12, markOf(9) + " " + markOf(123456) + markOf(10): 123456, "change-none!!! " + markOf(3): 3,
	} {
		require.Equal(t, newest, newestMark([]byte(text)), text)
	}
}

// A proxy that skips changes has all of those before.
func TestTargetsArrive(t *testing.T) {
	t.Parallel()
	c := &crowd{size: 2}
	first, second := c.expect(1), c.expect(2)
	at := time.Unix(100, 0)
	c.hear(0, 2, at)
	c.hear(0, 1, at.Add(time.Second))
	last, err := first.wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, at.Add(time.Second), last)
	select {
	case <-second.over:
		t.Fatal("one proxy lacks the second change")
	default:
	}
	c.hear(1, 2, at.Add(2*time.Second))
	last, err = second.wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, at.Add(2*time.Second), last)
}

func turnsOf(with, without []float64) (all []turn) {
	for i := range with {
		all = append(all, turn{reports: true, each: used{discovery: time.Duration(with[i] * float64(time.Millisecond))}})
		all = append(all, turn{reports: false, each: used{discovery: time.Duration(without[i] * float64(time.Millisecond))}})
	}
	return all
}

// An aim is missed only if the noise does not explain it.
func TestAimsAndNoise(t *testing.T) {
	t.Parallel()
	for said, turns := range map[string][]turn{
		"met":                           turnsOf([]float64{100, 101, 100}, []float64{100, 100, 101}),
		"MISSED":                        turnsOf([]float64{110, 111, 110}, []float64{100, 100, 101}),
		"not to be told from the noise": turnsOf([]float64{100, 120, 100}, []float64{100, 100, 101}),
	} {
		var out strings.Builder
		r := newReport(&out)
		r.aimOf("it", difference(turns, func(t turn) float64 { return millis(t.each.discovery) }), 1)
		require.True(t, strings.HasSuffix(out.String(), ": "+said+"\n"), out.String())
		require.Equal(t, said == "MISSED", r.missed > 0)
	}
}
