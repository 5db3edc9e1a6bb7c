package resources_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestCreateRefusesWhatExists(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	one := clitest.VirtualService("default", "reviews", "v1")
	require.Equal(t, "virtualservice default/reviews created\nrevision 1\n", m.Pipe(one, "create", "-f", "-").Out)
	r := m.Pipe(clitest.VirtualService("default", "ratings", "v1")+clitest.Separator+one, "create", "-f", "-")
	require.Equal(t, 3, r.Code)
	require.Regexp(t, `^error: virtualservice default/reviews already exists, since revision 1 by .*; nothing was changed\n$`, r.Err)
	require.Equal(t, 1, m.Stored())
}

func TestReplaceRefusesWhatDoesNotExist(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply(clitest.VirtualService("default", "reviews", "v1"))
	r := m.Pipe(clitest.VirtualService("default", "reviews", "v2")+clitest.Separator+clitest.VirtualService("default", "ratings", "v1"), "replace", "-f", "-")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Err, "VirtualService default/ratings: not found")
	require.Equal(t, "v1", route(t, m, "reviews"))
	require.Equal(t, "virtualservice default/reviews configured\nrevision 2\n", m.Pipe(clitest.VirtualService("default", "reviews", "v2"), "replace", "-f", "-").Out)
	stale := strings.Replace(clitest.VirtualService("default", "reviews", "v3"), "metadata:\n", "metadata:\n  resourceVersion: \"1\"\n", 1)
	r = m.Pipe(stale, "replace", "-f", "-")
	require.Equal(t, 3, r.Code)
	require.Contains(t, r.Err, "the object has been modified: get it again")
	require.Equal(t, "v2", route(t, m, "reviews"))
}

func TestApplyReadsNamedFilesAndURLs(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	dir := clitest.Folder(t, map[string]string{"a.yaml": clitest.VirtualService("default", "a", "v1")})
	require.Equal(t, "virtualservice default/a created\nrevision 1\n", m.OK("apply", filepath.Join(dir, "a.yaml")))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/b.yaml" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(clitest.VirtualService("default", "b", "v1") + clitest.Separator + clitest.Separator))
	}))
	defer s.Close()
	require.Equal(t, "virtualservice default/b created\nrevision 2\n", m.OK("apply", "-f", s.URL+"/b.yaml"))
	require.Equal(t, "1 resource is valid\n", m.OK("validate", s.URL+"/b.yaml"))
	require.Contains(t, m.Run("apply", "-f", s.URL+"/gone").Err, "/gone: the server answers 404 Not Found")
	require.Contains(t, m.Run("apply").Err, "name what to apply with -f")
}

func TestDeleteByLabelsAndAll(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	require.Equal(t, "virtualservice default/reviews deleted\nvirtualservice prod/reviews deleted\ndry run: nothing was changed\n", m.OK("delete", "vs", "-l", "app=reviews", "-A", "--dry-run"))
	require.Equal(t, "virtualservice default/ratings deleted\nrevision 2\n", m.OK("delete", "vs,dr", "-l", "app=ratings"))
	require.Equal(t, clitest.Result{Err: "nothing found in namespace other\nnote: there is no resource in a namespace \"other\", and no grant names it\n"}, m.Run("delete", "vs", "--all", "-n", "other"))
	require.Equal(t, "destinationrule default/reviews deleted\nvirtualservice default/reviews deleted\nrevision 3\n", m.OK("delete", "vs,dr", "--all"))
	require.Equal(t, "gatewayclass pgmesh deleted\nrevision 4\n", m.OK("delete", "gc", "--all"))
	require.Equal(t, "virtualservice prod/reviews deleted\nrevision 5\n", m.OK("delete", "all", "--all", "-n", "prod"))
	for _, args := range [][]string{{"vs", "x", "--all"}, {"--all"}, {"vs", "--all", "-l", "a"}, {"vs", "-l", "a b"}, {"vs", "--all", "-f", "x"}, {"all", "--all"}} {
		require.Equal(t, 2, m.Run(append([]string{"delete"}, args...)...).Code, args)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	for args, code := range map[string]int{
		"vs/reviews --for=condition=Accepted":                                            0,
		"vs/reviews --for=condition=resolvedrefs=false":                                  0,
		"vs/reviews --for=condition=ResolvedRefs --timeout 10ms":                         1,
		"vs/gone --for=delete":                                                           0,
		"vs/reviews --for=delete --timeout 10ms":                                         1,
		"vs/reviews gc/pgmesh --for=create":                                              0,
		"vs/gone --for=condition=Accepted":                                               1,
		"vs/reviews --for=jsonpath={.spec.hosts[0]}=reviews.example.com":                 0,
		"vs/reviews --for=jsonpath={.status.conditions[?(@.type==\"Accepted\")].status}": 0,
		"vs/reviews --for=jsonpath=.spec.hosts[0]=other --timeout 10ms":                  1,
		"vs/reviews --for=soon":                                                          2, "vs/reviews": 2, "vs --for=delete": 2,
	} {
		r := m.Run(append([]string{"wait"}, strings.Fields(args)...)...)
		require.Equal(t, code, r.Code, "%s: %s", args, r.Err)
		if code == 0 {
			require.Contains(t, r.Out, " condition met\n")
		}
	}
	require.Contains(t, m.Run("wait", "vs/reviews", "--for=delete", "--timeout", "1ms").Err, "timed out waiting for delete on VirtualService default/reviews")
	for _, args := range []string{"vs/reviews --for=delete --timeout=0", "vs --all --for=delete --timeout=0"} {
		require.Contains(t, m.Run(append([]string{"wait"}, strings.Fields(args)...)...).Err, "timed out waiting for delete", "it looks once")
	}
	require.Zero(t, m.Run("wait", "vs", "--all", "--for=create", "--timeout=0").Code)
	require.Contains(t, m.Run("wait", "vs/reviews", "--for=delete", "--timeout=5").Err, "(write a time with its unit, such as 30s, 5m or 1h30m)")
	require.Contains(t, m.Run("wait", "vs/reviews", "--for=condition=Programmed", "--timeout", "1ms").Err,
		"timed out waiting for condition=Programmed on VirtualService default/reviews: it is Unknown (NotReported): no discovery reports what proxies run")
	unknown := m.Run("wait", "vs/reviews", "--for=condition=Nope", "--timeout", "5m")
	require.Equal(t, 1, unknown.Code)
	require.Contains(t, unknown.Err, `it has no condition "Nope", and never will: its conditions are `)

	nothing := m.Run("wait", "vs", "-l", "app=misspelt", "--for=condition=Accepted")
	require.Equal(t, 1, nothing.Code)
	require.Contains(t, nothing.Err, "there is nothing to wait for: no resource is chosen")
	require.Zero(t, m.Run("wait", "vs", "-l", "app=misspelt", "--for=delete").Code)

	done := make(chan clitest.Result, 1)
	go func() { done <- m.Run("wait", "vs/reviews", "--for=delete", "--timeout=-1s") }()
	m.OK("delete", "vs/reviews")
	require.Equal(t, clitest.Result{Out: "virtualservice default/reviews condition met\n"}, <-done)
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	require.Equal(t, "NAMESPACE   RESOURCES\ndefault     4\nprod        1\n", m.OK("namespaces"))
	require.Equal(t, "default\nprod\n", m.OK("namespaces", "-o", "name"))
	require.Equal(t, "4", m.OK("namespaces", "-o", "jsonpath={[0].resources}"))
}

// kubectl's words for what has no file are taken, or answered.
func TestCreateTakesWordsOfKubectl(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	pair := certtest.NewAuthority(t).Issue(nil)
	dir := clitest.Folder(t, map[string]string{"tls.crt": string(pair.Cert), "tls.key": string(pair.Key), "namespace": clitest.VirtualService("default", "of-a-file", "v1")})
	at := func(name string) string { return filepath.Join(dir, name) }
	made := m.Run("create", "secret", "tls", "shop", "-n", "gateways", "--cert", at("tls.crt"), "--key", at("tls.key"), "--service-account", "edge")
	require.Zero(t, made.Code, made.Err)
	require.Contains(t, made.Out, "secret gateways/shop created")
	listed := m.OK("secret", "list", "-n", "gateways")
	require.Contains(t, listed, "shop")
	for _, words := range []string{"get secret shop -n gateways", "get secret/shop -n gateways", "get secrets/gateways/shop", "get secrets -A", "secret list gateways/shop"} {
		require.Equal(t, listed, m.OK(strings.Fields(words)...), words)
	}
	described := m.OK("describe", "secret/shop", "-n", "gateways")
	require.Regexp(t, `(?m)^Service accounts: +edge$`, described)
	require.Regexp(t, `(?m)^Valid: +until .*, for another `, described)
	require.Contains(t, m.Run("describe", "secret", "shpo", "-n", "gateways").Err, "Secret gateways/shpo: not found")
	require.Equal(t, clitest.Result{Err: "nothing found in namespace default\n"}, m.Run("get", "secrets"))
	require.Contains(t, m.Run("get", "secret/shop", "vs/reviews").Err, "vs is no secret: ask for secrets by themselves")

	for words, says := range map[string]string{
		"reviews":                     "create takes files: -f FILE names one",
		"deployment reviews":          "create takes files: -f FILE names one",
		"vs":                          "create takes files: -f FILE names one",
		"namespace shop":              "A namespace is there as soon as something is in it",
		"ns shop":                     "A namespace is there as soon as something is in it",
		"token ann":                   "here it is mcp-client token create",
		"token ann --duration 1h":     "here it is mcp-client token create",
		"secret generic shop":         "here it is mcp-client create secret ca",
		"sa shop":                     "A service account is a name",
		"nothing.yaml":                "no such file",
		"nothing.yaml --no-such-flag": "unknown flag: --no-such-flag",
	} {
		r := m.Run(append([]string{"create"}, strings.Fields(words)...)...)
		require.NotZero(t, r.Code, words)
		require.Contains(t, r.Err, says, words)
		require.LessOrEqual(t, strings.Count(r.Err, "\n"), 1, "one line: %s", r.Err)
	}
	require.Contains(t, m.OK("create", at("namespace")), "virtualservice default/of-a-file created")
}
