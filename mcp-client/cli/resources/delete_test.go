package resources_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestDeleteIsAtomic(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)

	r := m.Run("delete", "vs", "reviews", "rating", "-m", "gone")
	require.Equal(t, clitest.Result{Code: 1, Out: "", Err: "error: VirtualService default/rating: not found; nothing was deleted (did you mean \"ratings\"?)\n"}, r)
	require.Equal(t, 6, m.Stored())

	require.Equal(t, "virtualservice default/reviews deleted\nvirtualservice prod/reviews deleted\ndry run: nothing was changed\n",
		m.OK("delete", "vs/reviews", "vs/prod/reviews", "--dry-run"))
	require.Equal(t, "virtualservice default/reviews deleted\nvirtualservice prod/reviews deleted\nrevision 2\n",
		m.OK("delete", "vs/reviews", "vs/prod/reviews", "-m", "gone"))
	require.Equal(t, "gateway.gateway.networking.k8s.io default/edge deleted\nrevision 3\n",
		m.OK("delete", "gtw", "edge", "other", "--ignore-not-found"))
	require.Equal(t, "nothing to change\n", m.OK("delete", "gc/other", "--ignore-not-found"))
	var message string
	m.Query("SELECT message FROM mesh.revisions WHERE revision = 2", &message)
	require.Equal(t, "gone", message)
}

func TestDeleteReadsFiles(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	dir := clitest.Folder(t, map[string]string{"a.yaml": clitest.VirtualService("prod", "reviews", "x") + clitest.Separator + clitest.VirtualService("default", "other", "x")})
	file := filepath.Join(dir, "a.yaml")

	require.Equal(t, clitest.Result{Code: 1, Out: "", Err: "error: VirtualService default/other: not found; nothing was deleted\n"}, m.Run("delete", "-f", file))
	require.Equal(t, "virtualservice prod/reviews deleted\nrevision 2\n", m.OK("delete", "-f", dir, "--ignore-not-found"))
}

func TestDeleteNeedsNames(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"delete"}, {"delete", "vs"}, {"delete", "all"}, {"delete", "vs", "a", "-f", "x.yaml"}, {"delete", "vs", "a", "-A"}, {"delete", "nothing", "a"},
	} {
		r := clitest.Run(t.Context(), "", nil, args...)
		require.Equal(t, 2, r.Code, "%v: %s", args, r.Err)
	}
}
