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
	several := m.Run("delete", "vs", "rating", "ratinsg", "ratigs")
	require.Equal(t, "error: VirtualService default/rating, VirtualService default/ratinsg, VirtualService default/ratigs: not found; nothing was deleted (did you mean \"ratings\"?)\n", several.Err, "a hint once")
	require.Equal(t, "error: VirtualService default/rating: not found; nothing was deleted\n", m.Run("delete", "vs", "ratings", "rating").Err, "ratings is named already")
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

// Who names another namespace than the file does is asked which of both is meant.
func TestANamespaceOfTheCommandLineIsThatOfTheFiles(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	before := m.Everything()
	dir := clitest.Folder(t, map[string]string{
		"prod.yaml": clitest.VirtualService("prod", "reviews", "x"), "none.yaml": "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: ratings}\nspec: {hosts: [x], http: [{route: [{destination: {host: x}}]}]}\n",
		"class.yaml": "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: other}\nspec: {controllerName: example.com/x}\n",
	})
	file := filepath.Join(dir, "prod.yaml")
	for _, command := range []string{"apply", "create", "replace", "delete", "diff"} {
		r := m.Run(command, "-f", file, "-n", "other")
		require.Equal(t, 3, r.Code, "%s: %s", command, r.Err)
		require.Contains(t, r.Err, "prod.yaml: document 1, line 1: VirtualService prod/reviews: metadata.namespace: it is in the namespace prod, and --namespace says other (leave --namespace out")
		require.Equal(t, before, m.Everything(), command)
	}
	require.Equal(t, 3, m.Run("apply", "-f", dir, "-n", "default").Code, "all or none")
	require.Zero(t, m.Run("apply", "-f", file, "-n", "prod", "--dry-run").Code)
	require.Zero(t, m.Run("apply", "-f", file, "-A", "--dry-run").Code)
	require.Zero(t, m.Run("apply", "-f", filepath.Join(dir, "class.yaml"), "-n", "other", "--dry-run").Code, "it has no namespace")
	require.Contains(t, m.OK("apply", "-f", filepath.Join(dir, "none.yaml"), "-n", "other", "--dry-run"), "virtualservice other/ratings created")
	env := map[string]string{"PGMESH_NAMESPACE": "other"}
	r := clitest.Run(t.Context(), "", env, "delete", "-f", file, "--dry-run", "--server", m.Address, "--insecure")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Out, "virtualservice prod/reviews deleted")
}

// --wait has the values that kubectl has for it.
func TestWaitMayBeFalse(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	r := m.Run("delete", "vs/prod/reviews", "--wait=false", "--wait-timeout", "5s")
	require.Zero(t, r.Code, r.Err)
	require.Empty(t, r.Err, "none is waited for")
	require.Zero(t, m.Run("delete", "vs/reviews", "--wait=false", "--dry-run").Code)
	r = m.Run("delete", "vs/reviews", "--wait=true")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Err, "no proxy is connected that could run revision 3")
	require.Equal(t, 2, m.Run("delete", "vs/ratings", "--wait=true", "--dry-run").Code)
}
