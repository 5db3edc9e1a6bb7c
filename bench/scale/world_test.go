package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/proxy"
	"github.com/pgmesh/pgmesh/kinds"
)

func laid(t *testing.T, w world) *world {
	t.Helper()
	require.NoError(t, w.lay())
	return &w
}

// The generated resources must be valid, so they go through the usual checks.
func TestEveryMeshIsValid(t *testing.T) {
	t.Parallel()
	for _, w := range []world{
		{Services: 30, Endpoints: 2, Namespaces: 4, Routes: true},
		{Services: 30, Endpoints: 2, Namespaces: 4, Routes: true, Entries: true},
		{Services: 30, Endpoints: 2, Scope: 10},
	} {
		mesh := laid(t, w)
		p := who{world: mesh, workloads: true, interception: "REDIRECT"}
		for _, c := range []change{
			{resources: mesh.resources()}, changeOfRoute(mesh, 3), changeOfEndpoint(mesh, 3), newService(mesh, 3), manyRows(mesh, p, 90, 3),
		} {
			documents, err := kinds.Parse("mesh.yaml", []byte(documents(c.resources)))
			require.NoError(t, err)
			require.Len(t, documents, len(c.resources))
		}
	}
}

func TestScope(t *testing.T) {
	t.Parallel()
	whole := laid(t, world{Services: 30, Endpoints: 2, Namespaces: 4})
	require.Equal(t, 30, whole.visible(3))
	require.Equal(t, 30, whole.seenByAll())

	scoped := laid(t, world{Services: 1000, Endpoints: 2, Scope: 50})
	require.Equal(t, 22, scoped.Namespaces, "of 45 services each, and 5 that all see")
	require.Equal(t, 5, scoped.seenByAll())
	require.Equal(t, "common", scoped.namespace(4))
	all := 5
	for n := range scoped.Namespaces {
		require.InDelta(t, 50, scoped.visible(n), 1)
		all += len(scoped.homes[n])
	}
	require.Equal(t, 1000, all, "every service is somewhere")

	require.ErrorContains(t, (&world{Services: 10, Scope: 11}).lay(), "--scope 11")
}

// For a bulk, each proxy expects a mark as often as it sees one of the bulk's services.
func TestExpectedMarks(t *testing.T) {
	t.Parallel()
	w := laid(t, world{Services: 1000, Endpoints: 2, Scope: 50, Routes: true})
	p := who{world: w}
	all, some := manyRows(w, p, 10_000, 1), manyRows(w, p, 100, 1)
	require.Len(t, all.resources, 10_000)
	require.Len(t, some.resources, 100)
	for proxy := range 40 {
		require.Equal(t, w.visible(p.namespace(proxy)), all.signs[0].due(proxy))
		seen := 5
		for _, s := range w.homes[p.namespace(proxy)] {
			if s < 50 {
				seen++
			}
		}
		require.Equal(t, seen, some.signs[1].due(proxy))
	}
}

func TestProxiesAreDistinctEndpoints(t *testing.T) {
	t.Parallel()
	w := laid(t, world{Services: 30, Endpoints: 2, Namespaces: 4})
	p := who{world: w, workloads: true, interception: "REDIRECT", metadata: map[string]string{"CLUSTER_ID": "c"}}
	mesh, addresses := documents(w.resources()), map[string]bool{}
	for i := range 70 {
		n, err := p.node(i)
		require.NoError(t, err)
		address := strings.Split(n.GetId(), "~")[1]
		require.False(t, addresses[address])
		addresses[address] = true
		service, _, is := p.serves(i)
		require.Equal(t, is, strings.Contains(mesh, `"`+address+`"`))
		if is {
			require.Equal(t, w.namespace(service), n.GetMetadata().GetFields()["NAMESPACE"].GetStringValue())
			require.Equal(t, serviceName(service), n.GetMetadata().GetFields()["LABELS"].GetStructValue().GetFields()["app"].GetStringValue())
		}
		require.Equal(t, "c", n.GetMetadata().GetFields()["CLUSTER_ID"].GetStringValue())
	}
	_, _, is := p.serves(70)
	require.False(t, is, "there are no more endpoints than 60")
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
	w := laid(t, world{Services: 150, Endpoints: 1, Namespaces: 3, Routes: true})
	d := newDirectory(t.TempDir())
	for _, c := range []change{{resources: w.resources()}, changeOfRoute(w, 7), newService(w, 1)} {
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
