package status_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

func texts(lines []status.Line) (all []string) {
	for _, l := range lines {
		all = append(all, l.Text)
	}
	return all
}

func TestLinesKeepTheOrderOfAllWriters(t *testing.T) {
	t.Parallel()
	l := &status.Lines{}
	envoy, agent := l.Writer(status.FromEnvoy), l.Writer(status.FromAgent)
	fmt.Fprint(envoy, "[2026-01-01 00:00:00.000][7][warning][config] [x.cc:1] fi")
	fmt.Fprint(agent, "time=t level=WARN msg=second\n")
	fmt.Fprint(envoy, "rst\nof a stack\n[2026-01-01 00:00:00.000][7][info][main] third\n")
	fmt.Fprintln(agent, `{"time":"t","level":"DEBUG","msg":"fourth"}`)

	all := l.Last(10, status.Filter{})
	require.Equal(t, []string{
		"time=t level=WARN msg=second", "[2026-01-01 00:00:00.000][7][warning][config] [x.cc:1] first", "of a stack",
		"[2026-01-01 00:00:00.000][7][info][main] third", `{"time":"t","level":"DEBUG","msg":"fourth"}`,
	}, texts(all))
	require.Equal(t, "debug", all[4].Level)
	require.Equal(t, []string{"of a stack"}, texts(l.Last(1, status.Filter{Component: "config"})), "as the line before it")
	require.Len(t, l.Last(10, status.Filter{Level: "warning"}), 3)
	require.Len(t, l.Last(10, status.Filter{Level: "warning", From: status.FromAgent}), 1)
	require.Len(t, l.Last(2, status.Filter{}), 2)
}

func TestLinesAreBounded(t *testing.T) {
	t.Parallel()
	l := &status.Lines{}
	fmt.Fprintln(l.Writer(status.FromAgent), "level=INFO msg=quiet")
	envoy := l.Writer(status.FromEnvoy)
	fmt.Fprintln(envoy, strings.Repeat("x", 1<<20))
	for i := range 10_000 {
		fmt.Fprintln(envoy, "line", i, strings.Repeat("y", 100))
	}
	all := l.Last(1<<30, status.Filter{From: status.FromEnvoy})
	bytes := 0
	for _, line := range all {
		bytes += len(line.Text)
	}
	require.Less(t, bytes, 256<<10)
	require.Greater(t, bytes, 64<<10)
	require.True(t, strings.HasPrefix(all[len(all)-1].Text, "line 9999 "))
	require.Len(t, l.Last(1, status.Filter{From: status.FromAgent}), 1, "one that says much leaves the others theirs")

	long := &status.Lines{}
	fmt.Fprintln(long.Writer(status.FromEnvoy), strings.Repeat("x", 1<<20))
	require.Len(t, long.Last(1, status.Filter{})[0].Text, 4<<10)
}

func TestFollow(t *testing.T) {
	t.Parallel()
	l := &status.Lines{}
	w := l.Writer(status.FromAgent)
	fmt.Fprintln(w, "level=INFO msg=before")
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan string)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for line := range l.Follow(ctx, 1, status.Filter{Level: "info"}) {
			heard <- line.Text
		}
	}()
	require.Equal(t, "level=INFO msg=before", <-heard)
	fmt.Fprintln(w, "level=DEBUG msg=no")
	fmt.Fprintln(w, "level=INFO msg=after")
	require.Equal(t, "level=INFO msg=after", <-heard)
	cancel()
	<-done
}

func TestUnusedPartsAreLeftOut(t *testing.T) {
	t.Parallel()
	parts := status.Parts{
		Envoy: func() status.Envoy { return status.Envoy{Trouble: "it died"} },
		Registration: func() status.Registration {
			return status.Registration{Services: []status.Service{{Group: "cart", Trouble: "it is ill"}}}
		},
	}
	r := parts.Ask(status.Agent{})
	require.Nil(t, r.DNS)
	require.Equal(t, []string{"envoy: it died", "service cart: it is ill"}, r.Troubles())
}
