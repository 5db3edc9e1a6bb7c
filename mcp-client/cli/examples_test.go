package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/discovery/serve"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// The page has the help texts; go generate ./mcp-client rewrites it.
func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/cli.md")
	require.NoError(t, err)
	require.Equal(t, string(page), clitest.Run(t.Context(), "", nil, "reference").Out, "run go generate ./mcp-client")
}

// examples returns the examples of the page with their titles.
func examples(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	title, inside := "", false
	for line := range strings.Lines(clitest.Run(t.Context(), "", nil, "reference").Out) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "## "):
			title = line[len("## "):]
		case line == "```sh":
			inside = true
		case line == "```":
			inside = false
		case inside:
			all[title] = append(all[title], line)
		}
	}
	return all
}

// finds lists commands whose exit code 1 is a result.
var finds = map[string]bool{"diff": true, "compare": true, "problems": true}

// elsewhere lists examples that need something the test lacks.
var elsewhere = []string{
	"kubectl ",    // a cluster
	"2030-01-31T", // the time to come
	"end 4711",    // a session of the database that holds up others
	"git.example", // a server with a repository
}

func TestExamplesWork(t *testing.T) {
	t.Parallel()
	all := examples(t)
	require.Greater(t, len(all), 25)
	for title, lines := range all {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			shell := newShell(t)
			if strings.HasPrefix(title, "proxy-") || strings.HasPrefix(title, "authz") {
				shell.discover()
			}
			for _, line := range lines {
				if slices.ContainsFunc(elsewhere, func(word string) bool { return strings.Contains(line, word) }) {
					continue
				}
				code, told := shell.run(line)
				if code == 1 && finds[title] {
					continue
				}
				require.Zero(t, code, "%s\n%s", line, told)
			}
		})
	}
}

// shell runs lines as a user would type them: in a folder with example files, and with contexts for
// a server whose mesh has a history.
type shell struct {
	t    *testing.T
	mesh *clitest.Mesh
	dir  string
	env  []string
}

const reviewsEntry = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: reviews, namespace: default}
spec: {hosts: [v1.default.svc.cluster.local, v2.default.svc.cluster.local, reviews.example.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
`

const edgeGateway = `apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec: {selector: {app: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec: {hosts: [web.example.com], gateways: [edge], http: [{route: [{destination: {host: v1.default.svc.cluster.local, port: {number: 80}}}]}]}
`

func newShell(t *testing.T) *shell {
	t.Helper()
	m := clitest.Start(t)
	m.Apply(reviewsEntry + clitest.Separator + edgeGateway + clitest.Separator + "{apiVersion: networking.istio.io/v1, kind: WorkloadGroup, metadata: {name: cart, namespace: shop}, spec: {template: {}}}\n" + clitest.Separator +
		clitest.VirtualService("default", "reviews", "v1") + clitest.Separator + clitest.VirtualService("default", "ratings", "v1") + clitest.Separator +
		"{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: reviews, namespace: default}, spec: {host: reviews}}\n" +
		clitest.Separator + clitest.VirtualService("shop", "cart", "v1.default.svc.cluster.local"))
	r := m.Pipe(clitest.VirtualService("default", "reviews", "v2"), "apply", "-f", "-", "-m", "canary")
	require.Zero(t, r.Code, r.Err)
	m.Await(2)
	authority := certtest.NewAuthority(t)
	pair := authority.Issue(nil)
	dir := clitest.Folder(t, map[string]string{
		"reviews.yaml": clitest.VirtualService("default", "reviews", "v1"), "mesh/entry.yaml": reviewsEntry, "mesh/deep/ratings.yaml": clitest.VirtualService("default", "ratings", "v2"),
		"shop/cart.yaml": clitest.VirtualService("shop", "cart", "v1.default.svc.cluster.local"),
		"edge.yaml":      edgeGateway,
		"new.yaml":       clitest.VirtualService("shop", "new", "v1.default.svc.cluster.local"),
		"nginx.conf":     "server { listen 80; location / { proxy_pass http://10.0.0.5:8080; proxy_set_header Host $host; } }\n",
		"consul.json":    `[{"Node": "n1", "Address": "10.0.0.1", "ServiceID": "web-1", "ServiceName": "web", "ServicePort": 8080}]`,
		"agent.hcl":      "service {\n  name = \"web\"\n  address = \"10.0.0.1\"\n  port = 8080\n}\n",
		"kuma.yaml":      "{type: Dataplane, mesh: default, name: web, networking: {address: 10.0.0.1, inbound: [{port: 8080, tags: {kuma.io/service: web}}]}}\n",
		"partner.pem":    string(authority.PEM),
		"shop.pem":       string(pair.Cert), "shop.key": string(pair.Key), "clients.pem": string(authority.PEM),
	})
	s := &shell{t: t, mesh: m, dir: dir}
	s.env = append(os.Environ(), "PGMESH_CONFIG="+filepath.Join(dir, "config.yaml"), "PATH="+dir+"/bin:"+os.Getenv("PATH"),
		"EDITOR=sed -i s/v2/v1/", "TMPDIR="+dir, actAsProgram+"=yes")
	program, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	require.NoError(t, os.Symlink(program, filepath.Join(dir, "bin", "mcp-client")))
	for _, context := range []string{"local", "prod", "staging"} {
		code, told := s.run("mcp-client context set " + context + " --insecure --server " + m.Address)
		require.Zero(t, code, told)
	}
	m.Register(m.GiveMembers())
	m.OK("hosts", "grant", "default", "*.reviews.example")
	m.OK("snapshot", "save", filepath.Join(dir, "monday.snapshot.gz"))
	return s
}

// discover starts a discovery that serves the mesh to a proxy.
func (s *shell) discover() {
	s.t.Helper()
	d := clitest.Discover(s.t, serve.Sources{MCP: serve.MCP{Addresses: []string{s.mesh.Address}, Protocol: mcp.Auto}})
	d.Connect("sidecar~10.0.0.1~vm-1.default~default.svc.cluster.local", "", push.ClusterType, push.ListenerType)
	d.Until(func(r clitest.Result) bool { return strings.Count(r.Out, "SYNCED") == 2 }, "proxy-status")
	s.env = append(s.env, "PGMESH_DISCOVERY="+d.At.HTTP.String())
}

func (s *shell) run(line string) (code int, told string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "sh", "-c", strings.ReplaceAll(line, "127.0.0.1:15020 ", s.mesh.Address+" "))
	cmd.Dir, cmd.Env = s.dir, s.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if _, failed := err.(*exec.ExitError); !failed { //nolint:errorlint // as it is returned
		require.NoError(s.t, err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}
