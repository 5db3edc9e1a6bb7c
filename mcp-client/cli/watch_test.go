package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-client/cli"
)

// watch is a running watch whose output can be waited for.
type watch struct {
	t         *testing.T
	out, err  *bufio.Scanner
	interrupt func() int
}

func (m *mesh) watch(args ...string) *watch {
	m.t.Helper()
	out, toOut := io.Pipe()
	err, toErr := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	go func() {
		program := cli.Program{In: strings.NewReader(""), Out: toOut, Err: toErr, Getenv: func(string) string { return "" }}
		code <- program.Run(ctx, append([]string{"watch", "--server", m.address, "--insecure"}, args...))
	}()
	w := &watch{m.t, bufio.NewScanner(out), bufio.NewScanner(err), func() int {
		cancel()
		_, _ = out.Close(), err.Close()
		c := <-code
		code <- c
		return c
	}}
	m.t.Cleanup(func() { w.interrupt() })
	return w
}

// lines waits for the next n lines of a stream and removes their times.
func (w *watch) lines(from *bufio.Scanner, n int) []string {
	w.t.Helper()
	var lines []string
	for range n {
		require.True(w.t, from.Scan(), "the watch ended")
		lines = append(lines, stamp.ReplaceAllString(from.Text(), "<time>"))
	}
	return lines
}

var stamp = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}`)

func TestWatchPrintsEachBatch(t *testing.T) {
	t.Parallel()
	m := start(t)
	m.apply(virtualService("default", "reviews", "v1") + both + virtualService("prod", "reviews", "v1"))
	w := m.watch("vs", "-A")

	require.Equal(t, []string{
		"revision 1  <time>",
		"  current  virtualservice default/reviews",
		"  current  virtualservice prod/reviews",
	}, w.lines(w.out, 3))

	m.apply(virtualService("default", "reviews", "v2") + both + virtualService("default", "ratings", "v1"))
	require.Equal(t, []string{
		"revision 2  <time>",
		"  created  virtualservice default/ratings",
		"  changed  virtualservice default/reviews",
		"    @@ -11,5 +11,5 @@",
		"       http:",
		"       - route:",
		"         - destination:",
		"    -        host: v1",
		"    +        host: v2",
		"           weight: 100",
	}, w.lines(w.out, 10))

	m.ok("delete", "vs/default/reviews")
	require.Equal(t, []string{"revision 3  <time>", "  deleted  virtualservice default/reviews"}, w.lines(w.out, 2))
	require.Equal(t, 130, w.interrupt())
}

func TestWatchOneNamespace(t *testing.T) {
	t.Parallel()
	m := start(t)
	w := m.watch("-n", "prod", "-o", "name")
	m.apply(virtualService("default", "reviews", "v1"))
	m.apply(virtualService("prod", "ratings", "v1"))
	require.Equal(t, []string{"virtualservice.networking.istio.io/prod/ratings"}, w.lines(w.out, 1))
}

func TestWatchForPrograms(t *testing.T) {
	t.Parallel()
	m := start(t)
	m.apply(virtualService("default", "reviews", "v1"))
	asJSON, asYAML := m.watch("-o", "json"), m.watch("vs", "-o", "yaml")

	var batch struct {
		Revision int64 `json:"revision"`
		Changes  []struct {
			Action    string `json:"action"`
			Kind      string `json:"kind"`
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
			Resource  struct {
				Spec struct {
					Hosts []string `json:"hosts"`
				} `json:"spec"`
			} `json:"resource"`
		} `json:"changes"`
	}
	next := func() {
		batch.Changes = nil
		require.NoError(t, json.Unmarshal([]byte(asJSON.lines(asJSON.out, 1)[0]), &batch))
		require.Len(t, batch.Changes, 1)
	}
	next()
	require.Equal(t, int64(1), batch.Revision)
	require.Equal(t, "current", batch.Changes[0].Action)
	require.Equal(t, []string{"reviews.example.com"}, batch.Changes[0].Resource.Spec.Hosts)
	document := append([]string{"---", "# revision 1  <time>", "# current"}, strings.Split(strings.TrimSpace(virtualService("default", "reviews", "v1")), "\n")...)
	read := asYAML.lines(asYAML.out, len(document)+1) // and the creation time
	require.Equal(t, document, slicesWithout(read, "creationTimestamp"))

	m.ok("delete", "vs/reviews")
	next()
	require.Equal(t, int64(2), batch.Revision)
	require.Equal(t, []string{"deleted", "VirtualService", "default", "reviews"},
		[]string{batch.Changes[0].Action, batch.Changes[0].Kind, batch.Changes[0].Namespace, batch.Changes[0].Name})
	require.Equal(t, []string{"---", "# revision 2  <time>", "# deleted: VirtualService default/reviews"}, asYAML.lines(asYAML.out, 3))
}

func slicesWithout(lines []string, word string) []string {
	var kept []string
	for _, l := range lines {
		if !strings.Contains(l, word) {
			kept = append(kept, l)
		}
	}
	return kept
}

func TestWatchReconnects(t *testing.T) {
	t.Parallel()
	m := start(t)
	m.apply(virtualService("default", "reviews", "v1"))
	w := m.watch("vs")
	w.lines(w.out, 2)

	m.stop()
	require.Regexp(t, "^lost the server at "+m.address+": .*; trying again$", w.lines(w.err, 1)[0])
	m.serve()
	m.apply(virtualService("default", "reviews", "v2"))

	for line := ""; !strings.HasPrefix(line, "connected to "); {
		line = w.lines(w.err, 1)[0]
	}
	require.Equal(t, []string{"revision 2  <time>", "  changed  virtualservice default/reviews"}, w.lines(w.out, 2))
}

func TestWatchColours(t *testing.T) {
	t.Parallel()
	m := start(t)
	m.apply(virtualService("default", "reviews", "v1"))
	w := m.watch("vs/reviews", "dr", "-o", "wide", "--color", "always", "--count", "3")
	w.lines(w.out, 2)

	m.apply(virtualService("default", "ratings", "v1") + both + virtualService("default", "reviews", "v2"))
	seen := w.lines(w.out, 9)
	require.Equal(t, "\x1b[1mrevision 2  <time>\x1b[0m", seen[0])
	require.Equal(t, "  \x1b[33mchanged\x1b[0m  virtualservice default/reviews", seen[1])
	require.Equal(t, "    \x1b[31m-        host: v1\x1b[0m", seen[6])
	require.Equal(t, "    \x1b[32m+        host: v2\x1b[0m", seen[7])
	m.ok("delete", "vs/reviews")
	require.Equal(t, "  \x1b[31mdeleted\x1b[0m  virtualservice default/reviews", w.lines(w.out, 2)[1])
	require.Equal(t, "    \x1b[31m-apiVersion: networking.istio.io/v1\x1b[0m", w.lines(w.out, 2)[1], "what is gone is shown in full")
}

func TestWatchLimit(t *testing.T) {
	t.Parallel()
	m := bookinfo(t)
	require.Equal(t, "1 default/ratings\n", m.ok("watch", "vs/ratings", "--count", "1", "-o", "jsonpath={.revision} {.changes[0].namespace}/{.changes[0].name}"))
	for _, args := range [][]string{{"watch", "nothing"}, {"watch", "-o", "custom-columns=A:.a"}, {"watch", "vs/"}} {
		require.Equal(t, 2, m.run(args...).code, args)
	}
}
