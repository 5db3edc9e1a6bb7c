package resources_test

import (
	"os/user"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestApplyPrintsOutcomesAndRevision(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	dir := clitest.Folder(t, map[string]string{
		"a.yaml": clitest.VirtualService("default", "reviews", "v1") + clitest.Separator + clitest.VirtualService("prod", "ratings", "v1"),
		"b.yaml": clitest.VirtualService("default", "reviews", "v2") + clitest.Separator + clitest.VirtualService("prod", "ratings", "v1"),
	})

	require.Equal(t, "virtualservice default/reviews created\nvirtualservice prod/ratings created\nrevision 1\n",
		m.OK("apply", "-f", filepath.Join(dir, "a.yaml"), "-m", "the first"))
	require.Equal(t, "virtualservice default/reviews configured\nvirtualservice prod/ratings unchanged\ndry run: nothing was changed\n",
		m.OK("apply", "-f", filepath.Join(dir, "b.yaml"), "--dry-run"))
	require.Equal(t, "virtualservice default/reviews configured\nvirtualservice prod/ratings unchanged\nrevision 2\n",
		m.OK("apply", "-f", filepath.Join(dir, "b.yaml")))
	require.Equal(t, "virtualservice default/reviews unchanged\nvirtualservice prod/ratings unchanged\nnothing to change\n",
		m.OK("apply", "-f", filepath.Join(dir, "b.yaml")))

	me, err := user.Current()
	require.NoError(t, err)
	var origin string
	m.Query("SELECT author || ', ' || application || ', ' || message FROM mesh.revisions WHERE revision = 1", &origin)
	require.Regexp(t, "^"+me.Username+", mcp-client.*, the first$", origin)
}

func TestApplyReadsFilesFoldersAndStdin(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	dir := clitest.Folder(t, map[string]string{
		"b.yml":        clitest.VirtualService("default", "b", "x"),
		"a.yaml":       clitest.VirtualService("default", "a", "x"),
		"c.json":       `{"apiVersion": "networking.istio.io/v1", "kind": "Gateway", "metadata": {"name": "c"}, "spec": {"servers": [{"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": ["*"]}]}}`,
		"notes.txt":    "not a resource",
		"deep/d.yaml":  clitest.VirtualService("default", "d", "x"),
		"empty/e.text": "",
	})

	inOther := func(args ...string) string {
		r := clitest.Run(t.Context(), "", map[string]string{"PGMESH_NAMESPACE": "other"}, append(args, "--server", m.Address, "--insecure")...)
		require.Zero(t, r.Code, r.Err)
		return r.Out
	}
	require.Equal(t, "virtualservice default/a created\nvirtualservice default/b created\ngateway other/c created\nrevision 1\n", inOther("apply", "-f", dir))
	require.Contains(t, inOther("apply", "-R", "-f", dir, "-f", filepath.Join(dir, "a.yaml")), "virtualservice default/d created\nrevision 2\n")
	require.Equal(t, "virtualservice.networking.istio.io/default/e\n", m.Pipe(clitest.VirtualService("default", "e", "x"), "apply", "-f", "-", "-o", "name").Out)
	require.JSONEq(t, `{"revision": 4, "outcomes": [{"action": "created", "group": "networking.istio.io", "kind": "VirtualService", "namespace": "default", "name": "f"}],
		"warnings": [{"severity": "error", "code": "unknown-host", "group": "networking.istio.io", "kind": "VirtualService", "namespace": "default", "name": "f",
		"path": "spec.http[0].route[0].destination.host", "message": "no ServiceEntry that namespace \"default\" can see has the host \"x.default.svc.cluster.local\"",
		"hint": "create a ServiceEntry with this host"}]}`,
		m.Pipe(clitest.VirtualService("default", "f", "x"), "apply", "-f", "-", "-o", "json").Out)

	for args, reason := range map[string]string{
		filepath.Join(dir, "empty"):     "there is no file in it that ends in .yaml",
		filepath.Join(dir, "nowhere"):   "no such file or directory",
		filepath.Join(dir, "notes.txt"): "notes.txt: document 1, line 1: expected an object, got \"not a resource\"",
	} {
		r := m.Run("apply", "-f", args)
		require.NotZero(t, r.Code)
		require.Contains(t, r.Err, reason)
	}
	require.Equal(t, clitest.Result{Code: 1, Out: "", Err: "error: there is no resource in -\n"}, m.Pipe("# nothing", "apply", "-f", "-"))
}
