package compare_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestDiffShowsWhatApplyWouldChange(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	file := filepath.Join(clitest.Folder(t, map[string]string{
		"a.yaml": clitest.VirtualService("default", "reviews", "reviews-v2") + clitest.Separator + clitest.VirtualService("default", "ratings", "ratings-v1") + clitest.Separator + clitest.VirtualService("new", "größe", "x"),
	}), "a.yaml")
	if strings.Contains(file, "größe") {
		t.Fatal("names of files are not compared")
	}
	r := m.Run("diff", "-f", file)
	require.Equal(t, 3, r.Code, "a name that cannot be is refused before anything is compared")

	changed := clitest.VirtualService("default", "reviews", "reviews-v2") + clitest.Separator + clitest.VirtualService("default", "ratings", "ratings-v1") + clitest.Separator + clitest.VirtualService("new", "x", "x")
	r = m.Pipe(changed, "diff", "-f", "-")
	require.Equal(t, 1, r.Code)
	require.Empty(t, r.Err)
	require.True(t, strings.HasPrefix(r.Out, "--- virtualservice default/reviews ("+m.Address+")\n+++ virtualservice default/reviews (standard input)\n@@ -11,5 +11,5 @@\n"), r.Out)
	require.Contains(t, r.Out, "-        host: reviews-v1\n+        host: reviews-v2\n")
	require.Contains(t, r.Out, "@@ -0,0 +1,15 @@\n+apiVersion: networking.istio.io/v1\n")
	require.NotContains(t, r.Out, "ratings")

	require.Equal(t, clitest.Result{Code: 1, Out: "virtualservice.networking.istio.io/default/reviews\nvirtualservice.networking.istio.io/new/x\n", Err: ""},
		m.Pipe(changed, "diff", "-f", "-", "-o", "name"))
	var list []map[string]string
	require.NoError(t, json.Unmarshal([]byte(m.Pipe(changed, "diff", "-f", "-", "-o", "json").Out), &list))
	require.Len(t, list, 2)
	require.Equal(t, []string{"changed", "created"}, []string{list[0]["action"], list[1]["action"]})
	require.Contains(t, m.Pipe(changed, "diff", "-f", "-", "--color", "always").Out, "\n\x1b[32m+        host: reviews-v2\x1b[0m\n")
}

func TestDiffWithoutDifferences(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	all := m.OK("get", "all", "-A", "-o", "yaml")
	require.Equal(t, clitest.Result{}, m.Pipe(all, "diff", "-f", "-"))
	require.Equal(t, clitest.Result{Out: "[]\n"}, m.Pipe(all, "diff", "-f", "-", "-o", "json"))
}

// The exit code tells a failed comparison from one that found differences.
func TestFailedDiff(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	for _, c := range []struct {
		code int
		told string
		args []string
	}{
		{2, "name files with -f, or one or two revisions, and not both", []string{"diff"}},
		{2, "and not both", []string{"diff", "1", "-f", "x"}},
		{2, `"x" is not a revision, a time such as`, []string{"diff", "x"}},
		{2, `"yesterday" is not a revision`, []string{"diff", "1", "yesterday"}},
		{2, "accepts at most 2 arg", []string{"diff", "1", "2", "3"}},
		{2, `unknown kind "nothing"`, []string{"diff", "1", "--kind", "nothing"}},
		{6, "no such file", []string{"diff", "-f", "gone.yaml"}},
	} {
		r := m.Run(c.args...)
		require.Equal(t, c.code, r.Code, "%v: %s", c.args, r.Err)
		require.Contains(t, r.Err, c.told)
	}
	r := clitest.Run(t.Context(), clitest.VirtualService("default", "a", "b"), nil, "diff", "-f", "-", "--insecure", "--server", "127.0.0.1:1")
	require.Equal(t, 4, r.Code)
}
