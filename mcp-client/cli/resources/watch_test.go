package resources_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestWatchPrintsEachBatch(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply(clitest.VirtualService("default", "reviews", "v1") + clitest.Separator + clitest.VirtualService("prod", "reviews", "v1"))
	w := m.Watch("vs", "-A")

	require.Equal(t, []string{
		"revision 1  <time>",
		"  current  virtualservice default/reviews",
		"  current  virtualservice prod/reviews",
	}, w.Lines(w.Out, 3))

	m.Apply(clitest.VirtualService("default", "reviews", "v2") + clitest.Separator + clitest.VirtualService("default", "ratings", "v1"))
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
	}, w.Lines(w.Out, 10))

	m.OK("delete", "vs/default/reviews")
	require.Equal(t, []string{"revision 3  <time>", "  deleted  virtualservice default/reviews"}, w.Lines(w.Out, 2))
	require.Equal(t, 130, w.Interrupt())
}

func TestWatchOneNamespace(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	w := m.Watch("-n", "prod", "-o", "name")
	m.Apply(clitest.VirtualService("default", "reviews", "v1"))
	m.Apply(clitest.VirtualService("prod", "ratings", "v1"))
	require.Equal(t, []string{"virtualservice.networking.istio.io/prod/ratings"}, w.Lines(w.Out, 1))
}

func TestWatchForPrograms(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply(clitest.VirtualService("default", "reviews", "v1"))
	asJSON, asYAML := m.Watch("-o", "json"), m.Watch("vs", "-o", "yaml")

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
		require.NoError(t, json.Unmarshal([]byte(asJSON.Lines(asJSON.Out, 1)[0]), &batch))
		require.Len(t, batch.Changes, 1)
	}
	next()
	require.Equal(t, int64(1), batch.Revision)
	require.Equal(t, "current", batch.Changes[0].Action)
	require.Equal(t, []string{"reviews.example.com"}, batch.Changes[0].Resource.Spec.Hosts)
	document := append([]string{"---", "# revision 1  <time>", "# current"}, strings.Split(strings.TrimSpace(clitest.VirtualService("default", "reviews", "v1")), "\n")...)
	read := asYAML.Lines(asYAML.Out, len(document)+1) // and the creation time
	require.Equal(t, document, slicesWithout(read, "creationTimestamp"))

	m.OK("delete", "vs/reviews")
	next()
	require.Equal(t, int64(2), batch.Revision)
	require.Equal(t, []string{"deleted", "VirtualService", "default", "reviews"},
		[]string{batch.Changes[0].Action, batch.Changes[0].Kind, batch.Changes[0].Namespace, batch.Changes[0].Name})
	require.Equal(t, []string{"---", "# revision 2  <time>", "# deleted: VirtualService default/reviews"}, asYAML.Lines(asYAML.Out, 3))
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
	m := clitest.Start(t)
	m.Apply(clitest.VirtualService("default", "reviews", "v1"))
	w := m.Watch("vs")
	w.Lines(w.Out, 2)

	m.Stop()
	require.Regexp(t, "^lost the server at "+m.Address+": .*; trying again$", w.Lines(w.Err, 1)[0])
	m.Serve()
	m.Apply(clitest.VirtualService("default", "reviews", "v2"))

	for line := ""; !strings.HasPrefix(line, "connected to "); {
		line = w.Lines(w.Err, 1)[0]
	}
	require.Equal(t, []string{"revision 2  <time>", "  changed  virtualservice default/reviews"}, w.Lines(w.Out, 2))
}

func TestWatchColours(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply(clitest.VirtualService("default", "reviews", "v1"))
	w := m.Watch("vs/reviews", "dr", "-o", "wide", "--color", "always", "--count", "3")
	w.Lines(w.Out, 2)

	m.Apply(clitest.VirtualService("default", "ratings", "v1") + clitest.Separator + clitest.VirtualService("default", "reviews", "v2"))
	seen := w.Lines(w.Out, 9)
	require.Equal(t, "\x1b[1mrevision 2  <time>\x1b[0m", seen[0])
	require.Equal(t, "  \x1b[33mchanged\x1b[0m  virtualservice default/reviews", seen[1])
	require.Equal(t, "    \x1b[31m-        host: v1\x1b[0m", seen[6])
	require.Equal(t, "    \x1b[32m+        host: v2\x1b[0m", seen[7])
	m.OK("delete", "vs/reviews")
	require.Equal(t, "  \x1b[31mdeleted\x1b[0m  virtualservice default/reviews", w.Lines(w.Out, 2)[1])
	require.Equal(t, "    \x1b[31m-apiVersion: networking.istio.io/v1\x1b[0m", w.Lines(w.Out, 2)[1], "what is gone is shown in full")
}

func TestWatchLimit(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	require.Equal(t, "1 default/ratings\n", m.OK("watch", "vs/ratings", "--count", "1", "-o", "jsonpath={.revision} {.changes[0].namespace}/{.changes[0].name}"))
	for _, args := range [][]string{{"watch", "nothing"}, {"watch", "-o", "custom-columns=A:.a"}, {"watch", "vs/"}} {
		require.Equal(t, 2, m.Run(args...).Code, args)
	}
}
