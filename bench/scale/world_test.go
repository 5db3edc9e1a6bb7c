package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/bench/world"
	"github.com/pgmesh/pgmesh/internal/testbench/proxy"
	"github.com/pgmesh/pgmesh/kinds"
)

func laid(t *testing.T, w world.World) *world.World {
	t.Helper()
	require.NoError(t, w.Lay())
	return &w
}

// The generated resources must be valid, so they go through the usual checks.
func TestEveryMeshIsValid(t *testing.T) {
	t.Parallel()
	for _, w := range []world.World{
		{Services: 30, Endpoints: 2, Namespaces: 4, Routes: true},
		{Services: 30, Endpoints: 2, Namespaces: 4, Routes: true, Entries: true},
		{Services: 30, Endpoints: 2, Scope: 10},
	} {
		mesh := laid(t, w)
		p := world.Who{World: mesh, Workloads: true, Interception: "REDIRECT"}
		for _, c := range []change{
			{resources: mesh.Resources()}, changeOfRoute(mesh, 3), changeOfEndpoint(mesh, 3), newService(mesh, 3), manyRows(mesh, p, 90, 3),
		} {
			documents, err := kinds.Parse("mesh.yaml", []byte(world.Documents(c.resources)))
			require.NoError(t, err)
			require.Len(t, documents, len(c.resources))
		}
	}
}

// For a bulk, each proxy expects a mark as often as it sees one of the bulk's services.
func TestExpectedMarks(t *testing.T) {
	t.Parallel()
	w := laid(t, world.World{Services: 1000, Endpoints: 2, Scope: 50, Routes: true})
	p := world.Who{World: w}
	all, some := manyRows(w, p, 10_000, 1), manyRows(w, p, 100, 1)
	require.Len(t, all.resources, 10_000)
	require.Len(t, some.resources, 100)
	for proxy := range 40 {
		require.Equal(t, w.Visible(p.Namespace(proxy)), all.signs[0].due(proxy))
		seen := 5
		for s := 5; s < 50; s++ {
			if w.Namespace(s) == world.NamespaceName(p.Namespace(proxy)) {
				seen++
			}
		}
		require.Equal(t, seen, some.signs[1].due(proxy))
	}
}

// A mark that is a substring of another would be found in the wrong place.
func TestMarksAreDistinct(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range 1000 {
		a := markAddress(18, i)
		require.Len(t, a, len("198.18.100.100"))
		require.False(t, seen[a])
		seen[a] = true
	}
}

func TestWatchEndsWithLastSign(t *testing.T) {
	t.Parallel()
	c := &crowd{counts: make([]counts, 2)}
	w := c.expect(change{signs: []sign{once("m", proxy.Clusters), {[]byte("m"), []proxy.Type{proxy.Routes, proxy.VirtualHosts}, func(int) int { return 2 }}}})
	say := func(i int, kind proxy.Type, text string) {
		c.receive(i, proxy.Response{Type: kind, Bytes: []byte(text), At: anyTime})
	}
	for i := range 2 {
		say(i, proxy.Clusters, "m")
		say(i, proxy.Endpoints, "m m")
		say(i, proxy.VirtualHosts, "m")
		require.EqualValues(t, 2-i, w.left.Load())
		say(i, proxy.Routes, "m")
		say(i, proxy.Routes, "m")
	}
	<-w.over
	require.EqualValues(t, 10, c.totals().messages)
	require.EqualValues(t, 2, c.totals().most(totals{each: make([][proxy.Types]int64, 2)}))
}

func TestDirectoryHasEachResourceOnce(t *testing.T) {
	t.Parallel()
	w := laid(t, world.World{Services: 150, Endpoints: 1, Namespaces: 3, Routes: true})
	d := newDirectory(t.TempDir())
	for _, c := range []change{{resources: w.Resources()}, changeOfRoute(w, 7), newService(w, 1)} {
		_, err := d.write(t.Context(), c)
		require.NoError(t, err)
	}
	files, err := filepath.Glob(filepath.Join(d.path, "*.yaml"))
	require.NoError(t, err)
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		all.Write(text)
	}
	parsed, err := kinds.Parse("all.yaml", []byte(all.String()))
	require.NoError(t, err)
	require.Len(t, parsed, 302)
	require.Equal(t, 1, strings.Count(all.String(), "route-000007"))
}
