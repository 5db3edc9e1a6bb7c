package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// configured runs commands with their own file of contexts.
type configured struct {
	t   *testing.T
	env map[string]string
}

func newConfigured(t *testing.T) *configured {
	t.Helper()
	return &configured{t, map[string]string{"PGMESH_CONFIG": filepath.Join(t.TempDir(), "pgmesh", "config.yaml")}}
}

func (c *configured) run(args ...string) result {
	c.t.Helper()
	return run(c.t.Context(), "", c.env, args...)
}

func (c *configured) ok(args ...string) string {
	c.t.Helper()
	r := c.run(args...)
	require.Zero(c.t, r.code, r.err)
	require.Empty(c.t, r.err)
	return r.out
}

func (c *configured) write(text string, mode os.FileMode) {
	c.t.Helper()
	path := c.env["PGMESH_CONFIG"]
	require.NoError(c.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(c.t, os.WriteFile(path, []byte(text), mode))
	require.NoError(c.t, os.Chmod(path, mode))
}

func TestContextSelectsServer(t *testing.T) {
	t.Parallel()
	m, other, c := bookinfo(t), start(t), newConfigured(t)

	require.Equal(t, "context bookinfo set\n", c.ok("context", "set", "bookinfo", "--server", m.address, "--insecure", "-n", "prod"))
	require.Equal(t, "virtualservice.networking.istio.io/prod/reviews\n", c.ok("get", "vs", "-o", "name"), "the first is the current one")
	require.Equal(t, "virtualservice.networking.istio.io/default/ratings\n", c.ok("get", "vs/ratings", "-o", "name", "-n", "default"), "a flag wins")
	c.env["PGMESH_NAMESPACE"] = "none"
	require.Equal(t, "nothing found in namespace none\n", c.run("get", "vs").err, "the environment wins")
	delete(c.env, "PGMESH_NAMESPACE")

	c.ok("context", "set", "empty", "--server", other.address, "--insecure", "-o", "jsonpath={.items}")
	require.Equal(t, "[]", c.ok("get", "vs", "--context", "empty"))
	c.env["PGMESH_CONTEXT"] = "empty"
	require.Equal(t, "[]", c.ok("get", "vs"))
	delete(c.env, "PGMESH_CONTEXT")
	require.Equal(t, "context empty is the current one\n", c.ok("context", "use", "empty"))
	require.Equal(t, "[]", c.ok("get", "vs"))

	r := c.run("get", "vs", "--server", m.address)
	require.Equal(t, 4, r.code, "what a context allows, it allows to its own server")
	require.Contains(t, r.err, "--insecure")
	require.Equal(t, "[]", c.ok("get", "gw", "--server", m.address, "--context", "empty"), "unless it is asked for by name")

	c.ok("context", "set", "empty", "--unset", "output", "--timeout", "3s")
	require.Equal(t, "nothing found in namespace default\n", c.run("get", "vs").err)
}

func TestContextCommands(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	require.Equal(t, "there is no context: make one with mcp-client context set\n", c.run("context", "list").err)
	require.Equal(t, "[]\n", c.ok("context", "list", "-o", "json"))
	require.Contains(t, c.ok("context"), "context set prod")
	require.Contains(t, c.run("context", "lst").err, `unknown command "lst" (did you mean "list"?)`)
	c.ok("context", "set", "prod", "--server", "mesh.example.com:15020")
	c.ok("context", "set", "über", "--insecure", "--use")

	require.Equal(t, "CURRENT   NAME   SERVER                   NAMESPACE\n          prod   mesh.example.com:15020   -\n*         über   -                        -\n", c.ok("context", "list"))
	require.Equal(t, "prod\nüber\n", c.ok("context", "list", "-o", "name"))
	require.Equal(t, "name       über\ninsecure   true\n", c.ok("context", "show"))
	require.Equal(t, "name: prod\ncurrent: false\nsettings:\n  server: mesh.example.com:15020\n", c.ok("context", "show", "prod", "-o", "yaml"))
	require.Equal(t, "prod\n", c.ok("context", "show", "-o", "name", "--context", "prod"))
	require.Equal(t, "prod\nüber\n:4\n", c.run("__complete", "context", "use", "").out)
	require.Equal(t, "prod\nüber\n:4\n", c.run("__complete", "get", "--context", "").out)

	require.Equal(t, "context über deleted\n", c.ok("context", "delete", "über"))
	r := c.run("context", "show")
	require.Equal(t, result{1, "", "error: there is no current context: choose one with mcp-client context use\n"}, r)
	for told, args := range map[string][]string{
		`there is no context "pord" (did you mean "prod"?)`: {"context", "use", "pord"},
		`there is no context "elsewhere" (there are prod)`:  {"context", "delete", "prod", "elsewhere"},
		`there is no context "another" (there are prod)`:    {"get", "vs", "--context", "another"},
	} {
		r := c.run(args...)
		require.Equal(t, result{1, "", "error: " + told + "\n"}, r, args)
	}
	c.ok("context", "delete", "prod")
	require.Contains(t, c.run("get", "vs", "--context", "prod").err, "nor any other: make one with mcp-client context set")
	for _, args := range [][]string{{"context", "set"}, {"context", "use"}, {"context", "delete"}, {"context", "set", "a", "--unset", "nothing"}, {"context", "nothing"}, {"context", "lst"}} {
		require.Equal(t, 2, c.run(args...).code, args)
	}
}

func TestDamagedContextFileIsNamed(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	path := c.env["PGMESH_CONFIG"]
	for text, told := range map[string]string{
		"current: gone\n":                              `error: there is no context "gone", nor any other`,
		"current: a\ncontexts: {a: {srever: b}}\n":     "error: the context a in " + path + `: unknown setting "srever" (known are server, `,
		"current: a\ncontexts: {a: {timeout: soon}}\n": "error: the context a in " + path + `: timeout: time: invalid duration "soon"`,
		"contexts: [":                                  "error: read the contexts in " + path,
	} {
		c.write(text, 0o600)
		r := c.run("get", "vs")
		require.Equal(t, 1, r.code)
		require.Contains(t, r.err, told)
		require.Zero(t, c.run("version").code, "what needs no server works all the same")
	}
	c.write("current: a\ncontexts: {a: {insecure: true, token: t}}\n", 0o640)
	for _, args := range [][]string{{"get", "vs"}, {"context", "list"}, {"context", "set", "b"}} {
		require.Contains(t, c.run(args...).err, "chmod 600 "+path)
	}
	require.NoError(t, os.Chmod(path, 0o600))
	require.Equal(t, "name       a\ninsecure   true\ntoken      (secret)\n", c.ok("context", "show"))
	require.Contains(t, c.ok("context", "show", "--reveal"), "token      t\n")
	require.NotContains(t, c.ok("context", "list", "-o", "json"), `"t"`)
}
