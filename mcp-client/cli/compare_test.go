package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompareTwoServers(t *testing.T) {
	t.Parallel()
	a, b := bookinfo(t), bookinfo(t)
	same := a.ok("compare", b.address)
	require.Equal(t, "A  "+b.address+": 6 resources, revision 1\nB  "+a.address+": 6 resources, revision 1\n6 the same, 0 different\n", same)
	replica := a.replica()
	require.Contains(t, a.ok("compare", replica.address, "--versions"), "6 the same, 0 different\n")

	b.apply(virtualService("default", "reviews", "reviews-v9") + both + virtualService("prod", "new", "x"))
	b.ok("delete", "gc/pgmesh")
	b.await(3)
	r := a.run("compare", a.address, b.address)
	require.Equal(t, 1, r.code)
	require.Empty(t, r.err)
	require.Equal(t, `DIFFERENCE   RESOURCE
differs      virtualservice default/reviews
only in B    virtualservice prod/new
only in A    gatewayclass pgmesh

A  `+a.address+`: 6 resources, revision 1
B  `+b.address+`: 6 resources, revision 3
4 the same, 3 different
`, r.out)
	require.Equal(t, "virtualservice.networking.istio.io/default/reviews\n", a.run("compare", a.address, b.address, "-n", "default", "-o", "name").out)
	require.Contains(t, a.run("compare", a.address, b.address, "--diff").out, "-        host: reviews-v1\n+        host: reviews-v9\n")
	require.Zero(t, a.run("compare", a.address, b.address, "--kind", "dr,gtw").code)

	var answer struct {
		A, B        struct{ Resources, Revision int }
		Same        int
		Differences []struct{ Action, Kind, Name, Diff string }
	}
	require.NoError(t, json.Unmarshal([]byte(a.run("compare", a.address, b.address, "-o", "json").out), &answer))
	require.Equal(t, 3, answer.B.Revision)
	require.Equal(t, 4, answer.Same)
	require.Len(t, answer.Differences, 3)
	require.Equal(t, "deleted", answer.Differences[2].Action)
}

func TestCompareFilesSnapshotsAndContexts(t *testing.T) {
	t.Parallel()
	m, c := bookinfo(t), newConfigured(t)
	dir := t.TempDir()
	mesh, snap := filepath.Join(dir, "mesh"), filepath.Join(dir, "s.gz")
	m.ok("export", mesh)
	m.ok("snapshot", "save", snap)
	c.ok("context", "set", "book", "--server", m.address, "--insecure")
	for _, side := range []string{mesh, snap, "book"} {
		out := c.ok("compare", side, "book")
		require.Contains(t, out, "6 the same, 0 different\n")
		require.Equal(t, side == "book", strings.Contains(out, "A  book: 6 resources, revision 1"))
	}
	require.Contains(t, c.ok("compare", snap, "book", "--versions"), "6 the same")

	r := c.run("compare", snap, "book", "--versions", "-o", "name")
	require.Equal(t, result{}, r)
	one := filepath.Join(dir, "one.yaml")
	require.NoError(t, os.WriteFile(one, []byte(virtualService("prod", "reviews", "reviews-v2")), 0o600))
	require.Equal(t, 1, c.run("compare", one).code)
	require.Contains(t, c.ok("compare", one, "book", "--kind", "vs", "-n", "prod"), "1 the same")

	for answer, args := range map[string][]string{
		"files of resources have no versions to compare": {"compare", one, "book", "--versions"},
		"accepts between 1 and 2 arg":                    {"compare"},
		`unknown kind "x"`:                               {"compare", one, "--kind", "x"},
	} {
		r := c.run(args...)
		require.Equal(t, 2, r.code, r.err)
		require.Contains(t, r.err, answer)
	}
	for answer, args := range map[string][]string{
		"nowhere is no file, no context, and not the HOST:PORT of a server": {"compare", "nowhere", "book"},
		"there is no file in it": {"compare", t.TempDir(), "book"},
	} {
		r := c.run(args...)
		require.Equal(t, 6, r.code, r.err)
		require.Contains(t, r.err, answer)
	}
	require.Equal(t, 4, c.run("compare", "127.0.0.1:1", "book").code)
	require.Contains(t, c.run("__complete", "compare", "").out, "book\n")
}

// Other servers give other versions to the same content.
func TestCompareVersions(t *testing.T) {
	t.Parallel()
	m := start(t)
	m.apply(virtualService("default", "a", "b"))
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	m.ok("snapshot", "save", one)
	entries := readSnapshot(t, one)
	entries[0].Version = "another"
	writeSnapshot(t, two, entries)
	require.Zero(t, m.run("compare", one, two).code)
	r := m.run("compare", one, two, "--versions")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out, "version      virtualservice default/a\n")
	require.Regexp(t, `(?s)-[0-9a-f]+\n\+another\n`, m.run("compare", one, two, "--versions", "--diff").out)
}
