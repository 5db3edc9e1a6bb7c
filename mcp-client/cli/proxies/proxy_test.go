package proxies_test

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/discovery/serve"
	"github.com/pgmesh/pgmesh/discovery/servetest"
	"github.com/pgmesh/pgmesh/discovery/source"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// shop is a discovery of a mesh with a service, a route and a gateway.
func shop(t *testing.T) *clitest.Discovery {
	t.Helper()
	pair := certtest.NewAuthority(t).Issue(nil)
	memory := source.NewMemory()
	documents, err := kinds.Parser{DefaultNamespace: "shop", Secrets: true}.Parse("shop.yaml", []byte(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web}
spec:
  hosts: [web.shop]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.1.0.1, locality: eu/a, weight: 3}, {address: 10.1.0.2}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web}
spec: {hosts: [web.shop], http: [{match: [{uri: {prefix: /old}}], redirect: {uri: /new}}, {route: [{destination: {host: web.shop}}]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: outside}
spec: {hosts: [outside.example.com], gateways: [gate], http: [{route: [{destination: {host: web.shop}}]}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gate}
spec: {servers: [{port: {number: 443, name: https, protocol: HTTPS}, hosts: ['*'], tls: {mode: SIMPLE, credentialName: gate}}]}
`))
	require.NoError(t, err)
	var all []*kinds.Resource
	for _, d := range documents {
		all = append(all, d.Resource)
	}
	memory.Replace(append(all, &kinds.Resource{
		Kind: kinds.Secret, Namespace: "shop", Name: "gate",
		Spec: kinds.SpecOf(&mcpv1.Secret{Type: "kubernetes.io/tls", Data: map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key}}),
	})...)
	return clitest.Discover(t, serve.Sources{Embedded: []source.Source{memory}})
}

const (
	vm1  = "sidecar~10.0.0.1~vm-1.shop~shop.svc.cluster.local"
	vm2  = "sidecar~10.0.0.2~vm-2.shop~shop.svc.cluster.local"
	gate = "router~10.0.0.3~gate.shop~shop.svc.cluster.local"
)

func TestProxyStatus(t *testing.T) {
	t.Parallel()
	d := shop(t)
	require.Contains(t, d.Run("proxy-status").Err, "no proxy is connected")
	d.Connect(vm1, "", push.ClusterType, push.ListenerType)
	synced := func(r clitest.Result) bool { return strings.Count(r.Out, "SYNCED") == 2 }
	r := d.Until(synced, "proxy-status")
	require.Zero(t, r.Code)
	require.Regexp(t, `(?m)^NAME +ENVOY +FORM +CONNECTED +CLUSTERS +LISTENERS +ENDPOINTS`, r.Out)
	require.Regexp(t, `(?m)^vm-1.shop +- +delta +\d+s +SYNCED +SYNCED +- +-`, r.Out)

	d.Connect(vm2, push.ClusterType, push.ClusterType)
	r = d.Until(func(r clitest.Result) bool { return strings.Contains(r.Out, "NACKED") }, "proxies", "-o", "wide")
	require.Equal(t, 1, r.Code)
	require.Regexp(t, `error: there are proxies that refuse`, r.Err)
	require.Regexp(t, `(?m)REVISION +NEWEST +CLASS +ADDRESS$`, r.Out)

	r = d.Run("ps", "vm-2")
	require.Equal(t, 1, r.Code)
	require.Regexp(t, `(?m)^clusters +NACKED +\d+ +1, \d+s ago +- +1, \d+s ago: not with me$`, r.Out)
	require.Equal(t, "vm-1.shop\n", d.Run("ps", "-o", "jsonpath={[?(@.current==true)].proxy}").Out+"\n")
	require.Equal(t, "vm-1.shop\nvm-2.shop\n", d.Run("ps", "-o", "name").Out)

	r = d.Run("ps", "vm-3")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Err, `no proxy "vm-3" is connected to this discovery`)
	require.Equal(t, "vm-1.shop\nvm-2.shop\n:4\n", d.Run("__complete", "proxy-status", "").Out)
}

func TestProxyConfig(t *testing.T) {
	t.Parallel()
	d := shop(t)
	d.Connect(vm1, "", push.ClusterType)
	d.Connect(gate, "", push.ClusterType)
	d.Until(func(r clitest.Result) bool { return strings.Count(r.Out, "SYNCED") == 2 }, "proxy-status")
	for args, want := range map[string]string{
		"clusters vm-1 --name web":                    `(?m)\AHOST +PORT +SUBSET +DIRECTION +TYPE +ENDPOINTS\nweb.shop +80 +- +outbound +EDS +2\n\z`,
		"endpoints vm-1 --name web":                   `(?m)^10.1.0.2:80 +HEALTHY +- +0 +1 +outbound\|80\|\|web.shop\n10.1.0.1:80 +HEALTHY +eu/a +0 +3 +outbound`,
		"listeners vm-1":                              `(?m)^0.0.0.0 +80 +\S+ +\d+$`,
		"secrets gate":                                `(?m)^kubernetes://gate +certificate +\S+ +\d{4}-\d\d-\d\d`,
		"clusters vm-1 --name Black":                  `(?m)^BlackHoleCluster +- +- +- +STATIC +0$`,
		"all gate --name ^kubernetes://gate$ -o yaml": `(?s)private_key:.*inline_bytes: W3JlZGFjdGVkXQ==`,
		"clusters vm-1 -o jsonpath={.configs[0].dynamic_active_clusters[0].cluster.name}": `^BlackHoleCluster$`,
	} {
		r := d.Run(append([]string{"proxy-config"}, strings.Fields(args)...)...)
		require.Zero(t, r.Code, r.Err)
		require.Regexp(t, want, r.Out, args)
	}
	var dump struct{ Configs []any }
	require.NoError(t, json.Unmarshal([]byte(d.Run("pc", "all", "vm-1").Out), &dump))
	require.Greater(t, len(dump.Configs), 5)
	for _, typ := range []string{"cluster", "endpoint", "listener", "route", "secret"} {
		require.Equal(t, d.Run("pc", typ+"s", "vm-1"), d.Run("pc", typ, "vm-1"), "istioctl calls them so")
	}
	for flag, says := range map[string]string{
		"--fqdn=x": "unknown flag: --fqdn (here a regular expression chooses by the name: --name reviews.example.com)",
		"--nam=x":  "unknown flag: --nam (did you mean --name?)",
	} {
		require.Contains(t, d.Run("pc", "cluster", "vm-1", flag).Err, says)
	}
	require.Equal(t, d.Run("pc", "clusters", "vm-1"), d.Run("pc", "clusters", "shop/vm-1"), "describe calls it so")
	require.Contains(t, d.Run("pc", "clusters", "vm-1", "--name", "nobody").Err, "the proxy has no clusters of that name")
	r := d.Run("pc", "clusters", "vm-1", "--name", "(")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Err, "not a regular expression")
}

func TestProxyRoutes(t *testing.T) {
	t.Parallel()
	d := shop(t)
	d.Connect(vm1, "", push.ClusterType)
	d.Until(func(r clitest.Result) bool { return strings.Contains(r.Out, "SYNCED") }, "proxy-status")
	r := d.Run("proxy-config", "routes", "vm-1", "--name", "80")
	require.Regexp(t, `(?m)^80 +web.shop:80 +\S+( \+\d)? +/old\* +redirect$`, r.Out)
	require.Regexp(t, `(?m)^80 +web.shop:80 +\S+( \+\d)? +/\* +outbound\|80\|\|web.shop$`, r.Out)
}

func TestScopedProxyRoutes(t *testing.T) {
	t.Parallel()
	d := shop(t)
	d.Connect(gate, "", push.ScopedRouteType)
	d.Until(func(r clitest.Result) bool { return strings.Contains(r.Out, "SYNCED") }, "proxy-status")
	r := d.Run("proxy-config", "routes", "gate")
	require.Empty(t, r.Err)
	require.Regexp(t, `(?m)^https.443.https.gate.shop/outside.example.com +outside.example.com:443 +outside.example.com +/\* +outbound\|80\|\|web.shop$`, r.Out)
	require.Contains(t, d.Run("proxy-config", "routes", "gate", "-o", "json").Out, "https.443.https.gate.shop/*")
	require.Regexp(t, `scopes +SYNCED +2 `, d.Run("proxy-status", "gate").Out)
}

func TestDiscoveryIsDown(t *testing.T) {
	t.Parallel()
	r := clitest.Run(t.Context(), "", nil, "proxy-status", "--discovery", "http://127.0.0.1:1")
	require.Equal(t, 4, r.Code)
	require.Contains(t, r.Err, "cannot reach discovery at http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused. Its pages are at its --http")
	r = clitest.Run(t.Context(), "", nil, "proxy-status", "--discovery", "http://not a host")
	require.Equal(t, 2, r.Code)
	d := clitest.Discover(t, serve.Sources{Embedded: []source.Source{source.NewMemory()}})
	d.Connect(vm1, "", push.ClusterType)
	d.Until(func(r clitest.Result) bool { return strings.Contains(r.Out, "vm-1") }, "proxy-status")
	r = d.Run("proxy-config", "all", "vm-1")
	require.Equal(t, 4, r.Code)
	require.Contains(t, r.Err, "there is no configuration yet")
}

// A discovery on another machine requires its token.
func TestRemoteDiscoveryNeedsToken(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600))
	at, _ := servetest.Run(t, serve.Options{
		Sources: serve.Sources{Directory: t.TempDir()}, Plaintext: listen.Plaintext{Allowed: true},
		HTTP: monitor.Options{Address: net.JoinHostPort(outside(t), "0"), Access: monitor.Access{TokenFile: token}},
	})
	ask := func(more ...string) clitest.Result {
		return clitest.Run(t.Context(), "", nil, append([]string{"proxy-status", "--discovery", at.HTTP.String()}, more...)...)
	}
	refused := ask()
	require.NotZero(t, refused.Code)
	require.Contains(t, refused.Err, "this page is for whoever shows the token of --http-token-file")
	require.Contains(t, refused.Err, "--discovery-token-file")
	require.Contains(t, ask("--discovery-token-file", token).Err, "no proxy is connected")
	require.Contains(t, ask("--discovery-token-file", token+"s").Err, "no such file")
}

// outside is an address of this machine that others can reach.
func outside(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		if n, is := a.(*net.IPNet); is && !n.IP.IsLoopback() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback")
	return ""
}

// A discovery answers for resources as a server without any does.
func TestReadingFromADiscoveryIsWarnedOf(t *testing.T) {
	t.Parallel()
	d := shop(t)
	r := clitest.At(t, d.At.XDS.String(), "get", "vs", "-A")
	require.Zero(t, r.Code, r.Err)
	require.Equal(t, "warning: what listens at "+d.At.XDS.String()+" is a discovery, which has no resources to read: name mcp-server, "+
		"which listens on 15020 unless it was told otherwise\nnothing found in any namespace\n", r.Err)
}
