package cli_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/require"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/discovery/serve"
	"github.com/pgmesh/pgmesh/discovery/servetest"
	"github.com/pgmesh/pgmesh/discovery/source"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// discovery is a running discovery with its debug pages.
type discovery struct {
	t  *testing.T
	at serve.Addresses
}

// discover starts a discovery.
func discover(t *testing.T, sources serve.Sources) *discovery {
	t.Helper()
	return &discovery{t, servetest.Start(t, sources, ads.Limits{})}
}

// proxy connects a proxy that accepts everything, or all but one type.
func (d *discovery) proxy(id, refuses string, types ...string) {
	d.t.Helper()
	connection, err := grpc.NewClient(d.at.XDS.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(d.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(connection).DeltaAggregatedResources(ctx)
	require.NoError(d.t, err)
	for _, typeURL := range types {
		node := &corev3.Node{Id: id}
		if strings.HasPrefix(id, "router~") { // an Envoy that takes routes by host
			node.UserAgentName = "envoy"
			node.UserAgentVersionType = &corev3.Node_UserAgentBuildVersion{
				UserAgentBuildVersion: &corev3.BuildVersion{Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 40}},
			}
		}
		require.NoError(d.t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: typeURL}))
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			answer := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()}
			if r.GetTypeUrl() == refuses {
				answer.ErrorDetail = &statuspb.Status{Code: 3, Message: "not with me"}
			}
			_ = stream.Send(answer) // which fails as Recv will
		}
	}()
	d.t.Cleanup(func() {
		cancel()
		<-left
		require.NoError(d.t, connection.Close())
	})
}

func (d *discovery) run(args ...string) result {
	d.t.Helper()
	return run(d.t.Context(), "", map[string]string{"PGMESH_DISCOVERY": d.at.HTTP.String()}, args...)
}

// until repeats a command until its output is as wanted.
func (d *discovery) until(is func(result) bool, args ...string) result {
	d.t.Helper()
	var r result
	require.Eventually(d.t, func() bool {
		r = d.run(args...)
		return is(r)
	}, 20*time.Second, time.Millisecond, "%+v", &r)
	return r
}

// shop is a discovery of a mesh with a service, a route and a gateway.
func shop(t *testing.T) *discovery {
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
	return discover(t, serve.Sources{Embedded: []source.Source{memory}})
}

const (
	vm1  = "sidecar~10.0.0.1~vm-1.shop~shop.svc.cluster.local"
	vm2  = "sidecar~10.0.0.2~vm-2.shop~shop.svc.cluster.local"
	gate = "router~10.0.0.3~gate.shop~shop.svc.cluster.local"
)

func TestProxyStatus(t *testing.T) {
	t.Parallel()
	d := shop(t)
	require.Contains(t, d.run("proxy-status").err, "no proxy is connected")
	d.proxy(vm1, "", push.ClusterType, push.ListenerType)
	synced := func(r result) bool { return strings.Count(r.out, "SYNCED") == 2 }
	r := d.until(synced, "proxy-status")
	require.Zero(t, r.code)
	require.Regexp(t, `(?m)^NAME +ENVOY +FORM +CONNECTED +CLUSTERS +LISTENERS +ENDPOINTS`, r.out)
	require.Regexp(t, `(?m)^vm-1.shop +- +delta +\d+s +SYNCED +SYNCED +- +-`, r.out)

	d.proxy(vm2, push.ClusterType, push.ClusterType)
	r = d.until(func(r result) bool { return strings.Contains(r.out, "NACKED") }, "proxies", "-o", "wide")
	require.Equal(t, 1, r.code)
	require.Regexp(t, `error: there are proxies that refuse`, r.err)
	require.Regexp(t, `(?m)REVISION +NEWEST +CLASS +ADDRESS$`, r.out)

	r = d.run("ps", "vm-2")
	require.Equal(t, 1, r.code)
	require.Regexp(t, `(?m)^clusters +NACKED +\d+ +1, \d+s ago +- +1, \d+s ago: not with me$`, r.out)
	require.Equal(t, "vm-1.shop\n", d.run("ps", "-o", "jsonpath={[?(@.current==true)].proxy}").out+"\n")
	require.Equal(t, "vm-1.shop\nvm-2.shop\n", d.run("ps", "-o", "name").out)

	r = d.run("ps", "vm-3")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, `no proxy "vm-3" is connected to this discovery`)
	require.Equal(t, "vm-1.shop\nvm-2.shop\n:4\n", d.run("__complete", "proxy-status", "").out)
}

func TestProxyConfig(t *testing.T) {
	t.Parallel()
	d := shop(t)
	d.proxy(vm1, "", push.ClusterType)
	d.proxy(gate, "", push.ClusterType)
	d.until(func(r result) bool { return strings.Count(r.out, "SYNCED") == 2 }, "proxy-status")
	for args, want := range map[string]string{
		"clusters vm-1 --name web":                    `(?m)\AHOST +PORT +SUBSET +DIRECTION +TYPE +ENDPOINTS\nweb.shop +80 +- +outbound +EDS +2\n\z`,
		"endpoints vm-1 --name web":                   `(?m)^10.1.0.2:80 +HEALTHY +- +0 +1 +outbound\|80\|\|web.shop\n10.1.0.1:80 +HEALTHY +eu/a +0 +3 +outbound`,
		"listeners vm-1":                              `(?m)^0.0.0.0 +80 +\S+ +\d+$`,
		"secrets gate":                                `(?m)^kubernetes://gate +certificate +\S+ +\d{4}-\d\d-\d\d`,
		"clusters vm-1 --name Black":                  `(?m)^BlackHoleCluster +- +- +- +STATIC +0$`,
		"all gate --name ^kubernetes://gate$ -o yaml": `(?s)private_key:.*inline_bytes: W3JlZGFjdGVkXQ==`,
		"clusters vm-1 -o jsonpath={.configs[0].dynamic_active_clusters[0].cluster.name}": `^BlackHoleCluster$`,
	} {
		r := d.run(append([]string{"proxy-config"}, strings.Fields(args)...)...)
		require.Zero(t, r.code, r.err)
		require.Regexp(t, want, r.out, args)
	}
	var dump struct{ Configs []any }
	require.NoError(t, json.Unmarshal([]byte(d.run("pc", "all", "vm-1").out), &dump))
	require.Greater(t, len(dump.Configs), 5)
	require.Contains(t, d.run("pc", "clusters", "vm-1", "--name", "nobody").err, "the proxy has no clusters of that name")
	r := d.run("pc", "clusters", "vm-1", "--name", "(")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "not a regular expression")
}

func TestProxyRoutes(t *testing.T) {
	t.Parallel()
	d := shop(t)
	d.proxy(vm1, "", push.ClusterType)
	d.until(func(r result) bool { return strings.Contains(r.out, "SYNCED") }, "proxy-status")
	r := d.run("proxy-config", "routes", "vm-1", "--name", "80")
	require.Regexp(t, `(?m)^80 +web.shop:80 +\S+( \+\d)? +/old\* +redirect$`, r.out)
	require.Regexp(t, `(?m)^80 +web.shop:80 +\S+( \+\d)? +/\* +outbound\|80\|\|web.shop$`, r.out)
}

func TestScopedProxyRoutes(t *testing.T) {
	t.Parallel()
	d := shop(t)
	d.proxy(gate, "", push.ScopedRouteType)
	d.until(func(r result) bool { return strings.Contains(r.out, "SYNCED") }, "proxy-status")
	r := d.run("proxy-config", "routes", "gate")
	require.Empty(t, r.err)
	require.Regexp(t, `(?m)^https.443.https.gate.shop/outside.example.com +outside.example.com:443 +outside.example.com +/\* +outbound\|80\|\|web.shop$`, r.out)
	require.Contains(t, d.run("proxy-config", "routes", "gate", "-o", "json").out, "https.443.https.gate.shop/*")
	require.Regexp(t, `scopes +SYNCED +2 `, d.run("proxy-status", "gate").out)
}

func TestDiscoveryIsDown(t *testing.T) {
	t.Parallel()
	r := run(t.Context(), "", nil, "proxy-status", "--discovery", "http://127.0.0.1:1")
	require.Equal(t, 4, r.code)
	require.Contains(t, r.err, "cannot reach discovery at http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused. Its pages are at its --http")
	r = run(t.Context(), "", nil, "proxy-status", "--discovery", "http://not a host")
	require.Equal(t, 2, r.code)
	d := discover(t, serve.Sources{Embedded: []source.Source{source.NewMemory()}})
	d.proxy(vm1, "", push.ClusterType)
	d.until(func(r result) bool { return strings.Contains(r.out, "vm-1") }, "proxy-status")
	r = d.run("proxy-config", "all", "vm-1")
	require.Equal(t, 4, r.code)
	require.Contains(t, r.err, "there is no configuration yet")
}

// A discovery on another machine requires its token.
func TestRemoteDiscoveryNeedsToken(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600))
	at, _ := servetest.Run(t, serve.Options{
		Sources: serve.Sources{Directory: t.TempDir()}, Plaintext: listen.Plaintext{Allowed: true},
		HTTP: net.JoinHostPort(outside(t), "0"), Access: monitor.Access{TokenFile: token},
	})
	ask := func(more ...string) result {
		return run(t.Context(), "", nil, append([]string{"proxy-status", "--discovery", at.HTTP.String()}, more...)...)
	}
	refused := ask()
	require.NotZero(t, refused.code)
	require.Contains(t, refused.err, "this page is for whoever shows the token of --http-token-file")
	require.Contains(t, refused.err, "--discovery-token-file")
	require.Contains(t, ask("--discovery-token-file", token).err, "no proxy is connected")
	require.Contains(t, ask("--discovery-token-file", token+"s").err, "no such file")
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
