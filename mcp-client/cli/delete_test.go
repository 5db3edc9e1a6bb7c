package cli_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDeleteIsAtomic(t *testing.T) {
	t.Parallel()
	m := bookinfo(t)

	r := m.run("delete", "vs", "reviews", "rating", "-m", "gone")
	require.Equal(t, result{1, "", "error: VirtualService default/rating: not found; nothing was deleted (did you mean \"ratings\"?)\n"}, r)
	require.Equal(t, 6, m.stored())

	require.Equal(t, "virtualservice default/reviews deleted\nvirtualservice prod/reviews deleted\ndry run: nothing was changed\n",
		m.ok("delete", "vs/reviews", "vs/prod/reviews", "--dry-run"))
	require.Equal(t, "virtualservice default/reviews deleted\nvirtualservice prod/reviews deleted\nrevision 2\n",
		m.ok("delete", "vs/reviews", "vs/prod/reviews", "-m", "gone"))
	require.Equal(t, "gateway.gateway.networking.k8s.io default/edge deleted\nrevision 3\n",
		m.ok("delete", "gtw", "edge", "other", "--ignore-not-found"))
	require.Equal(t, "nothing to change\n", m.ok("delete", "gc/other", "--ignore-not-found"))
	var message string
	m.query("SELECT message FROM mesh.revisions WHERE revision = 2", &message)
	require.Equal(t, "gone", message)
}

func TestDeleteReadsFiles(t *testing.T) {
	t.Parallel()
	m := bookinfo(t)
	dir := folder(t, map[string]string{"a.yaml": virtualService("prod", "reviews", "x") + both + virtualService("default", "other", "x")})
	file := filepath.Join(dir, "a.yaml")

	require.Equal(t, result{1, "", "error: VirtualService default/other: not found; nothing was deleted\n"}, m.run("delete", "-f", file))
	require.Equal(t, "virtualservice prod/reviews deleted\nrevision 2\n", m.ok("delete", "-f", dir, "--ignore-not-found"))
}

func TestDeleteNeedsNames(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"delete"}, {"delete", "vs"}, {"delete", "all"}, {"delete", "vs", "a", "-f", "x.yaml"}, {"delete", "vs", "a", "-A"}, {"delete", "nothing", "a"},
	} {
		r := run(t.Context(), "", nil, args...)
		require.Equal(t, 2, r.code, "%v: %s", args, r.err)
	}
}
