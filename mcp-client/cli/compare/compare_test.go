package compare_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/mcp-client/snapshot"
)

func TestCompareTwoServers(t *testing.T) {
	t.Parallel()
	a, b := clitest.Bookinfo(t), clitest.Bookinfo(t)
	same := a.OK("compare", b.Address)
	require.Equal(t, "A  "+b.Address+": 6 resources, revision 1\nB  "+a.Address+": 6 resources, revision 1\n6 the same, 0 different\n", same)
	replica := a.Replica()
	require.Contains(t, a.OK("compare", replica.Address, "--versions"), "6 the same, 0 different\n")

	b.Apply(clitest.VirtualService("default", "reviews", "reviews-v9") + clitest.Separator + clitest.VirtualService("prod", "new", "x"))
	b.OK("delete", "gc/pgmesh")
	b.Await(3)
	r := a.Run("compare", a.Address, b.Address)
	require.Equal(t, 1, r.Code)
	require.Empty(t, r.Err)
	require.Equal(t, `DIFFERENCE   RESOURCE
differs      virtualservice default/reviews
only in B    virtualservice prod/new
only in A    gatewayclass pgmesh

A  `+a.Address+`: 6 resources, revision 1
B  `+b.Address+`: 6 resources, revision 3
4 the same, 3 different
`, r.Out)
	require.Equal(t, "virtualservice.networking.istio.io/default/reviews\n", a.Run("compare", a.Address, b.Address, "-n", "default", "-o", "name").Out)
	require.Contains(t, a.Run("compare", a.Address, b.Address, "--diff").Out, "-        host: reviews-v1\n+        host: reviews-v9\n")
	require.Zero(t, a.Run("compare", a.Address, b.Address, "--kind", "dr,gtw").Code)

	var answer struct {
		A, B        struct{ Resources, Revision int }
		Same        int
		Differences []struct{ Action, Kind, Name, Diff string }
	}
	require.NoError(t, json.Unmarshal([]byte(a.Run("compare", a.Address, b.Address, "-o", "json").Out), &answer))
	require.Equal(t, 3, answer.B.Revision)
	require.Equal(t, 4, answer.Same)
	require.Len(t, answer.Differences, 3)
	require.Equal(t, "deleted", answer.Differences[2].Action)
}

func TestCompareFilesSnapshotsAndContexts(t *testing.T) {
	t.Parallel()
	m, c := clitest.Bookinfo(t), clitest.NewConfigured(t)
	dir := t.TempDir()
	mesh, snap := filepath.Join(dir, "mesh"), filepath.Join(dir, "s.gz")
	m.OK("export", mesh)
	m.OK("snapshot", "save", snap)
	c.OK("context", "set", "book", "--server", m.Address, "--insecure")
	for _, side := range []string{mesh, snap, "book"} {
		out := c.OK("compare", side, "book")
		require.Contains(t, out, "6 the same, 0 different\n")
		require.Equal(t, side == "book", strings.Contains(out, "A  book: 6 resources, revision 1"))
	}
	require.Contains(t, c.OK("compare", snap, "book", "--versions"), "6 the same")

	r := c.Run("compare", snap, "book", "--versions", "-o", "name")
	require.Equal(t, clitest.Result{}, r)
	one := filepath.Join(dir, "one.yaml")
	require.NoError(t, os.WriteFile(one, []byte(clitest.VirtualService("prod", "reviews", "reviews-v2")), 0o600))
	require.Equal(t, 1, c.Run("compare", one).Code)
	require.Contains(t, c.OK("compare", one, "book", "--kind", "vs", "-n", "prod"), "1 the same")

	for answer, args := range map[string][]string{
		"files of resources have no versions to compare": {"compare", one, "book", "--versions"},
		"accepts between 1 and 2 arg":                    {"compare"},
		`unknown kind "x"`:                               {"compare", one, "--kind", "x"},
	} {
		r := c.Run(args...)
		require.Equal(t, 2, r.Code, r.Err)
		require.Contains(t, r.Err, answer)
	}
	for answer, args := range map[string][]string{
		"nowhere is no file, no context, and not the HOST:PORT of a server": {"compare", "nowhere", "book"},
		"there is no file in it": {"compare", t.TempDir(), "book"},
	} {
		r := c.Run(args...)
		require.Equal(t, 6, r.Code, r.Err)
		require.Contains(t, r.Err, answer)
	}
	require.Equal(t, 4, c.Run("compare", "127.0.0.1:1", "book").Code)
	require.Contains(t, c.Run("__complete", "compare", "").Out, "book\n")
}

// Other servers give other versions to the same content.
func TestCompareVersions(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply(clitest.VirtualService("default", "a", "b"))
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	m.OK("snapshot", "save", one)
	entries := readSnapshot(t, one)
	entries[0].Version = "another"
	writeSnapshot(t, two, entries)
	require.Zero(t, m.Run("compare", one, two).Code)
	r := m.Run("compare", one, two, "--versions")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Out, "version      virtualservice default/a\n")
	require.Regexp(t, `(?s)-[0-9a-f]+\n\+another\n`, m.Run("compare", one, two, "--versions", "--diff").Out)
}

func readSnapshot(t *testing.T, path string) []snapshot.Entry {
	t.Helper()
	_, entries, err := snapshot.Open(path)
	require.NoError(t, err)
	return entries
}

func writeSnapshot(t *testing.T, path string, entries []snapshot.Entry) {
	t.Helper()
	require.NoError(t, snapshot.Save(path, snapshot.Header{Server: "test"}, entries))
}
