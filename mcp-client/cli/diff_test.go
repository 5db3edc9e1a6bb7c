package cli_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDiffShowsWhatApplyWouldChange(t *testing.T) {
	t.Parallel()
	m := bookinfo(t)
	file := filepath.Join(folder(t, map[string]string{
		"a.yaml": virtualService("default", "reviews", "reviews-v2") + both + virtualService("default", "ratings", "ratings-v1") + both + virtualService("new", "größe", "x"),
	}), "a.yaml")
	if strings.Contains(file, "größe") {
		t.Fatal("names of files are not compared")
	}
	r := m.run("diff", "-f", file)
	require.Equal(t, 3, r.code, "a name that cannot be is refused before anything is compared")

	changed := virtualService("default", "reviews", "reviews-v2") + both + virtualService("default", "ratings", "ratings-v1") + both + virtualService("new", "x", "x")
	r = m.pipe(changed, "diff", "-f", "-")
	require.Equal(t, 1, r.code)
	require.Empty(t, r.err)
	require.True(t, strings.HasPrefix(r.out, "--- virtualservice default/reviews ("+m.address+")\n+++ virtualservice default/reviews (standard input)\n@@ -11,5 +11,5 @@\n"), r.out)
	require.Contains(t, r.out, "-        host: reviews-v1\n+        host: reviews-v2\n")
	require.Contains(t, r.out, "@@ -0,0 +1,15 @@\n+apiVersion: networking.istio.io/v1\n")
	require.NotContains(t, r.out, "ratings")

	require.Equal(t, result{1, "virtualservice.networking.istio.io/default/reviews\nvirtualservice.networking.istio.io/new/x\n", ""},
		m.pipe(changed, "diff", "-f", "-", "-o", "name"))
	var list []map[string]string
	require.NoError(t, json.Unmarshal([]byte(m.pipe(changed, "diff", "-f", "-", "-o", "json").out), &list))
	require.Len(t, list, 2)
	require.Equal(t, []string{"changed", "created"}, []string{list[0]["action"], list[1]["action"]})
	require.Contains(t, m.pipe(changed, "diff", "-f", "-", "--color", "always").out, "\n\x1b[32m+        host: reviews-v2\x1b[0m\n")
}

func TestDiffWithoutDifferences(t *testing.T) {
	t.Parallel()
	m := bookinfo(t)
	all := m.ok("get", "all", "-A", "-o", "yaml")
	require.Equal(t, result{}, m.pipe(all, "diff", "-f", "-"))
	require.Equal(t, result{out: "[]\n"}, m.pipe(all, "diff", "-f", "-", "-o", "json"))
}

// The exit code tells a failed comparison from one that found differences.
func TestFailedDiff(t *testing.T) {
	t.Parallel()
	m := start(t)
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
		r := m.run(c.args...)
		require.Equal(t, c.code, r.code, "%v: %s", c.args, r.err)
		require.Contains(t, r.err, c.told)
	}
	r := run(t.Context(), virtualService("default", "a", "b"), nil, "diff", "-f", "-", "--insecure", "--server", "127.0.0.1:1")
	require.Equal(t, 4, r.code)
}
