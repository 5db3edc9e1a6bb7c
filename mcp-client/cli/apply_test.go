package cli_test

import (
	"os/user"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestApplyPrintsOutcomesAndRevision(t *testing.T) {
	t.Parallel()
	m := start(t)
	dir := folder(t, map[string]string{
		"a.yaml": virtualService("default", "reviews", "v1") + both + virtualService("prod", "ratings", "v1"),
		"b.yaml": virtualService("default", "reviews", "v2") + both + virtualService("prod", "ratings", "v1"),
	})

	require.Equal(t, "virtualservice default/reviews created\nvirtualservice prod/ratings created\nrevision 1\n",
		m.ok("apply", "-f", filepath.Join(dir, "a.yaml"), "-m", "the first"))
	require.Equal(t, "virtualservice default/reviews configured\nvirtualservice prod/ratings unchanged\ndry run: nothing was changed\n",
		m.ok("apply", "-f", filepath.Join(dir, "b.yaml"), "--dry-run"))
	require.Equal(t, "virtualservice default/reviews configured\nvirtualservice prod/ratings unchanged\nrevision 2\n",
		m.ok("apply", "-f", filepath.Join(dir, "b.yaml")))
	require.Equal(t, "virtualservice default/reviews unchanged\nvirtualservice prod/ratings unchanged\nnothing to change\n",
		m.ok("apply", "-f", filepath.Join(dir, "b.yaml")))

	me, err := user.Current()
	require.NoError(t, err)
	var origin string
	m.query("SELECT author || ', ' || application || ', ' || message FROM mesh.revisions WHERE revision = 1", &origin)
	require.Regexp(t, "^"+me.Username+", mcp-client.*, the first$", origin)
}

func TestApplyReadsFilesFoldersAndStdin(t *testing.T) {
	t.Parallel()
	m := start(t)
	dir := folder(t, map[string]string{
		"b.yml":        virtualService("default", "b", "x"),
		"a.yaml":       virtualService("default", "a", "x"),
		"c.json":       `{"apiVersion": "networking.istio.io/v1", "kind": "Gateway", "metadata": {"name": "c"}, "spec": {"servers": [{"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": ["*"]}]}}`,
		"notes.txt":    "not a resource",
		"deep/d.yaml":  virtualService("default", "d", "x"),
		"empty/e.text": "",
	})

	require.Equal(t, "virtualservice default/a created\nvirtualservice default/b created\ngateway other/c created\nrevision 1\n",
		m.ok("apply", "-f", dir, "-n", "other"))
	require.Contains(t, m.ok("apply", "-R", "-f", dir, "-f", filepath.Join(dir, "a.yaml"), "-n", "other"), "virtualservice default/d created\nrevision 2\n")
	require.Equal(t, "virtualservice.networking.istio.io/default/e\n", m.pipe(virtualService("default", "e", "x"), "apply", "-f", "-", "-o", "name").out)
	require.JSONEq(t, `{"revision": 4, "outcomes": [{"action": "created", "group": "networking.istio.io", "kind": "VirtualService", "namespace": "default", "name": "f"}],
		"warnings": [{"severity": "error", "code": "unknown-host", "group": "networking.istio.io", "kind": "VirtualService", "namespace": "default", "name": "f",
		"path": "spec.http[0].route[0].destination.host", "message": "no ServiceEntry that namespace \"default\" can see has the host \"x.default.svc.cluster.local\"",
		"hint": "create a ServiceEntry with this host"}]}`,
		m.pipe(virtualService("default", "f", "x"), "apply", "-f", "-", "-o", "json").out)

	for args, reason := range map[string]string{
		filepath.Join(dir, "empty"):     "there is no file in it that ends in .yaml",
		filepath.Join(dir, "nowhere"):   "no such file or directory",
		filepath.Join(dir, "notes.txt"): "notes.txt: document 1, line 1: expected an object, got a string",
	} {
		r := m.run("apply", "-f", args)
		require.NotZero(t, r.code)
		require.Contains(t, r.err, reason)
	}
	require.Equal(t, result{1, "", "error: there is no resource in -\n"}, m.pipe("# nothing", "apply", "-f", "-"))
}
