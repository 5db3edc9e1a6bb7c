package cli_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestContextSelectsServer(t *testing.T) {
	t.Parallel()
	m, other, c := clitest.Bookinfo(t), clitest.Start(t), clitest.NewConfigured(t)

	require.Equal(t, "context bookinfo set\n", c.OK("context", "set", "bookinfo", "--server", m.Address, "--insecure", "-n", "prod"))
	require.Equal(t, "virtualservice.networking.istio.io/prod/reviews\n", c.OK("get", "vs", "-o", "name"), "the first is the current one")
	require.Equal(t, "virtualservice.networking.istio.io/default/ratings\n", c.OK("get", "vs/ratings", "-o", "name", "-n", "default"), "a flag wins")
	c.Env["PGMESH_NAMESPACE"] = "none"
	require.Equal(t, "nothing found in namespace none\nnote: there is no resource in a namespace \"none\", and no grant names it\n", c.Run("get", "vs").Err, "the environment wins")
	delete(c.Env, "PGMESH_NAMESPACE")

	c.OK("context", "set", "empty", "--server", other.Address, "--insecure", "-o", "jsonpath={.items}")
	require.Equal(t, "[]", c.OK("get", "vs", "--context", "empty"))
	c.Env["PGMESH_CONTEXT"] = "empty"
	require.Equal(t, "[]", c.OK("get", "vs"))
	delete(c.Env, "PGMESH_CONTEXT")

	c.Env["PGMESH_SERVER"], c.Env["PGMESH_TOKEN"], c.Env["PGMESH_NAMESPACE"], c.Env["PGMESH_OUTPUT"] = m.Address, "for-another", "prod", "name"
	require.Equal(t, "[]", c.Run("get", "vs", "--context", "empty").Out, "a context that is named wins over the environment")
	delete(c.Env, "PGMESH_TOKEN")
	require.Equal(t, "virtualservice.networking.istio.io/prod/reviews\n", c.OK("get", "vs", "--context", "bookinfo"))
	c.OK("context", "set", "where", "-n", "default")
	require.Equal(t, "virtualservice.networking.istio.io/default/ratings\n", c.OK("get", "vs/ratings", "--context", "where", "--insecure"), "which has no server of its own")
	c.OK("context", "delete", "where")
	for _, variable := range []string{"SERVER", "NAMESPACE", "OUTPUT"} {
		delete(c.Env, "PGMESH_"+variable)
	}
	require.Equal(t, "context empty is the current one\n", c.OK("context", "use", "empty"))
	require.Equal(t, "[]", c.OK("get", "vs"))

	r := c.Run("get", "vs", "--server", m.Address)
	require.Equal(t, 4, r.Code, "what a context allows, it allows to its own server")
	require.Contains(t, r.Err, "--insecure")
	require.Contains(t, r.Err, "The context empty was left aside, for its server has another name: --context empty uses what it says")
	require.Equal(t, "[]", c.OK("get", "gw", "--server", m.Address, "--context", "empty"), "unless it is asked for by name")
	require.Equal(t, "[]", c.OK("get", "gw", "--server", other.Address), "its own server may be named")

	c.OK("context", "set", "empty", "--unset", "output", "--timeout", "3s")
	require.Equal(t, "nothing found in namespace default\n", c.Run("get", "vs").Err)
}

func TestContextCommands(t *testing.T) {
	t.Parallel()
	c := clitest.NewConfigured(t)
	require.Equal(t, "there is no context: make one with mcp-client context set\n", c.Run("context", "list").Err)
	require.Equal(t, "[]\n", c.OK("context", "list", "-o", "json"))
	require.Contains(t, c.OK("context", "--help"), "context set prod")
	require.Contains(t, c.Run("context", "lst").Err, `unknown command "lst" (did you mean "list"?)`)
	c.OK("context", "set", "prod", "--server", "mesh.example.com:15020")
	c.OK("context", "set", "über", "--insecure", "--use")

	require.Equal(t, "CURRENT   NAME   SERVER                   NAMESPACE\n          prod   mesh.example.com:15020   -\n*         über   -                        -\n", c.OK("context", "list"))
	require.Equal(t, "prod\nüber\n", c.OK("context", "list", "-o", "name"))
	require.Equal(t, "name       über\ninsecure   true\n", c.OK("context", "show"))
	require.Equal(t, "name: prod\ncurrent: false\nsettings:\n  server: mesh.example.com:15020\n", c.OK("context", "show", "prod", "-o", "yaml"))
	require.Equal(t, "prod\n", c.OK("context", "show", "-o", "name", "--context", "prod"))
	require.Equal(t, "prod\nüber\n:4\n", c.Run("__complete", "context", "use", "").Out)
	require.Equal(t, "prod\nüber\n:4\n", c.Run("__complete", "get", "--context", "").Out)

	require.Equal(t, "context über set\n", c.OK("context", "set", "--current", "-n", "shop"))
	require.Equal(t, "name        über\ninsecure    true\nnamespace   shop\n", c.OK("context", "show"))
	require.Contains(t, c.Run("context", "set", "prod", "--current").Err, "--current stands for the name")
	require.Contains(t, c.Run("context", "set").Err, "accepts 1 arg(s), received 0: write mcp-client context set (NAME | --current)")
	require.Contains(t, c.Run("config", "rename", "prod", "stage").Err, "mcp-client context delete OLD")

	require.Equal(t, "context über deleted\n", c.OK("context", "delete", "über"))
	require.Contains(t, c.Run("context", "set", "--current", "-n", "shop").Err, "there is no current context")
	r := c.Run("context", "show")
	require.Equal(t, clitest.Result{Code: 1, Out: "", Err: "error: there is no current context: choose one with mcp-client context use\n"}, r)
	for told, args := range map[string][]string{
		`there is no context "pord" (did you mean "prod"?)`: {"context", "use", "pord"},
		`there is no context "elsewhere" (there are prod)`:  {"context", "delete", "prod", "elsewhere"},
		`there is no context "another" (there are prod)`:    {"get", "vs", "--context", "another"},
	} {
		r := c.Run(args...)
		require.Equal(t, clitest.Result{Code: 1, Out: "", Err: "error: " + told + "\n"}, r, args)
	}
	c.OK("context", "delete", "prod")
	require.Contains(t, c.Run("get", "vs", "--context", "prod").Err, "nor any other: make one with mcp-client context set")
	for _, args := range [][]string{{"context", "set"}, {"context", "use"}, {"context", "delete"}, {"context", "set", "a", "--unset", "nothing"}, {"context", "nothing"}, {"context", "lst"}} {
		require.Equal(t, 2, c.Run(args...).Code, args)
	}
}

// A variable that a script has not set makes -n empty: that is no namespace, but as if -n were not given.
func TestAnEmptyNamespaceIsNone(t *testing.T) {
	t.Parallel()
	m, c := clitest.Bookinfo(t), clitest.NewConfigured(t)
	c.OK("context", "set", "shop", "--server", m.Address, "--insecure", "-n", "prod")
	require.Equal(t, "virtualservice.networking.istio.io/prod/reviews\n", c.OK("get", "vs", "-o", "name", "-n", ""), "the context's")
	c.Env["PGMESH_NAMESPACE"] = "default"
	require.Equal(t, "virtualservice.networking.istio.io/default/ratings\n", c.OK("get", "vs/ratings", "-o", "name", "--namespace="), "the environment's")
	delete(c.Env, "PGMESH_NAMESPACE")

	require.Contains(t, m.Run("wait", "vs/reviews", "-n", "", "--for=delete", "--timeout", "1ms").Err, "timed out waiting for delete on VirtualService default/reviews")
	require.Contains(t, m.OK("export", "-n", ""), "namespace: prod", "all, as without -n")
	require.Contains(t, m.OK("get", "vs", "-n", "", "-A", "-o", "name"), "/prod/reviews")

	r := c.Run("context", "set", "shop", "-n", "")
	require.Equal(t, 2, r.Code)
	require.Contains(t, r.Err, "-n names no namespace: --unset namespace leaves it to its default")
	require.Contains(t, c.OK("context", "show"), "namespace   prod\n")
}

func TestDamagedContextFileIsNamed(t *testing.T) {
	t.Parallel()
	c := clitest.NewConfigured(t)
	path := c.Env["PGMESH_CONFIG"]
	for text, told := range map[string]string{
		"current: gone\n":                              `error: there is no context "gone", nor any other`,
		"current: a\ncontexts: {a: {srever: b}}\n":     "error: the context a in " + path + `: unknown setting "srever" (known are server, `,
		"current: a\ncontexts: {a: {timeout: soon}}\n": "error: the context a in " + path + `: timeout: time: invalid duration "soon"`,
		"contexts: [":                                  "error: read the contexts in " + path,
	} {
		c.Write(text, 0o600)
		r := c.Run("get", "vs")
		require.Equal(t, 1, r.Code)
		require.Contains(t, r.Err, told)
		require.Zero(t, c.Run("version").Code, "what needs no server works all the same")
		require.Zero(t, c.Run("--version").Code)
	}
	c.Write("current: a\ncontexts: {a: {insecure: true, token: t}}\n", 0o640)
	for _, args := range [][]string{{"get", "vs"}, {"context", "list"}, {"context", "set", "b"}} {
		require.Contains(t, c.Run(args...).Err, "chmod 600 "+path)
	}
	require.NoError(t, os.Chmod(path, 0o600))
	require.Equal(t, "name       a\ninsecure   true\ntoken      (secret)\n", c.OK("context", "show"))
	require.Contains(t, c.OK("context", "show", "--reveal"), "token      t\n")
	require.NotContains(t, c.OK("context", "list", "-o", "json"), `"t"`)
}
