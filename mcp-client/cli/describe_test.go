package cli_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	m := eventful(t)
	m.apply(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: v2, namespace: default, annotations: {team: "réviews\nand more"}}
spec: {hosts: [v2.default.svc.cluster.local], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
`)
	out := withoutClocks(m.ok("describe", "vs/reviews"))
	require.Regexp(t, `^Name:          reviews
Namespace:     default
Kind:          VirtualService \(networking.istio.io/v1\)
Labels:        app=reviews
Annotations:   -
Created:       <time>, \d+s ago
Spec:
  hosts:
  - reviews.example.com
  http:
  - route:
    - destination:
        host: v2
      weight: 100
Refers to:
  spec.hosts\[0\] +reviews.example.com +\(not found\)
  spec.http\[0\].route\[0\].destination.host   v2.default.svc.cluster.local   serviceentry default/v2
History:
  revision 2   <time>, \d+s ago   changed   \S+ \(mcp-client.*\)   canary: v2
  revision 1   <time>, \d+s ago   created   \S+ \(mcp-client.*\)   the first
$`, out)
	out = m.ok("describe", "se", "v2")
	require.Contains(t, out, "Annotations:   team=réviews and more\n")
	require.Contains(t, out, "Referred to by:\n  virtualservice default/reviews   spec.http[0].route[0].destination.host\n")

	out = m.ok("describe", "vs/ratings")
	require.Contains(t, out, `Problems:
  error  unknown-host  spec.http[0].route[0].destination.host: no ServiceEntry that namespace "default" can see has the host "v1.default.svc.cluster.local"`)
	require.Equal(t, 2, strings.Count(m.ok("describe", "vs", "-A"), "Name: "))
	require.Contains(t, m.ok("describe", "vs/ratings", "--color", "always"), "\x1b[31merror\x1b[0m")
}

func TestDescribeMissingResource(t *testing.T) {
	t.Parallel()
	m := bookinfo(t)
	r := m.run("describe", "vs", "reviews", "gone")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out, "Name:          reviews\n")
	require.Equal(t, "error: VirtualService default/gone: not found\n", r.err)
	require.Equal(t, result{err: "nothing found in namespace default\n"}, m.run("describe", "wasmplugins"))
	for _, args := range [][]string{{"describe"}, {"describe", "nothing"}, {"describe", "vs", "-o", "json"}} {
		require.Equal(t, 2, m.run(args...).code, args)
	}
	require.Contains(t, m.ok("describe", "gc/pgmesh"), "Referred to by:\n  gateway.gateway.networking.k8s.io default/edge   spec.gatewayClassName\n")
}

func TestDescribeOnForeignServer(t *testing.T) {
	t.Parallel()
	address := serveGRPC(t, func(s *grpc.Server) { discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, stock{}) })
	r := run(t.Context(), "", nil, "describe", "vs", "--server", address, "--insecure")
	require.Zero(t, r.code, r.err)
	require.Equal(t, `Name:          reviews
Namespace:     default
Kind:          VirtualService (networking.istio.io/v1)
Labels:        -
Annotations:   -
Spec:
  hosts:
  - a
Refers to:
  spec.hosts[0]   a.default.svc.cluster.local   (not found)
`, r.out)
}

func TestStatus(t *testing.T) {
	t.Parallel()
	m := eventful(t)
	w := m.watch("vs")
	w.lines(w.out, 1)
	var out string
	require.Eventually(t, func() bool { // no client tells when the server has heard that another is gone, or its answer
		out = withoutClocks(m.ok("status"))
		return regexp.MustCompile(`(?m)^clients +1$`).MatchString(out) && regexp.MustCompile(`(?m)^sidecar~\S+ +delta +\d+s +4 +-$`).MatchString(out)
	}, 20*time.Second, 10*time.Millisecond, "one client, which has revision 4")
	require.Regexp(t, `(?m)^server +`+m.address+`, version .*, up for \d+s$`, out)
	require.Regexp(t, `(?m)^serves +revision 4$`, out)
	require.Regexp(t, `(?m)^source +database, connected for \d+s, lost 0 times$`, out)
	require.Regexp(t, `(?m)^mesh +revision 4 at <time>, history from revision 1$`, out)
	require.Regexp(t, `(?m)^  virtualservice +2$`, out)
	require.Contains(t, m.ok("status", "-o", "wide"), "  networking.istio.io/v1/VirtualService")
	require.Equal(t, "4 delta", m.ok("status", "-o", "jsonpath={.server.revision} {.clients[0].protocol}"))

	r := m.pipe(virtualService("default", "a", "b"), "apply", "-f", "-", "--confirm-within", "5m")
	require.Zero(t, r.code, r.err)
	require.Contains(t, m.ok("status"), "1 change to be confirmed")
}

func TestStatusOfForeignServer(t *testing.T) {
	t.Parallel()
	address := serveGRPC(t, func(s *grpc.Server) { discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, stock{}) })
	status := func(args ...string) result {
		return run(t.Context(), "", nil, append([]string{"status", "--server", address, "--insecure"}, args...)...)
	}
	require.Equal(t, result{out: "server             " + address + "\nname               -\nprotocol           xds\nresources          1\n  virtualservice   1\n"}, status())
	require.Equal(t, "xds", status("-o", "jsonpath={.protocol}").out)
	require.Equal(t, 4, run(t.Context(), "", nil, "status", "--server", "127.0.0.1:1", "--insecure").code)
}

func TestBench(t *testing.T) {
	t.Parallel()
	m := bookinfo(t)
	out := m.ok("bench", "--clients", "5", "--changes", "3")
	require.Regexp(t, `(?m)^clients +5\nstate of each +6 resources, [\d.]+ kB$`, out)
	require.Regexp(t, `(?m)^ +P50 +P90 +P99 +MAX\nwhole state +[\d.]+ ms .*\ncommit .*\nchange at a client .*\nchange at all clients +[\d.]+ ms`, out)
	require.Equal(t, 6, m.stored(), "what was written is removed")
	require.Equal(t, "2 3", m.ok("bench", "--clients", "2", "--kind", "vs", "-o", "jsonpath={.clients} {.resources}"))
	var revisions int
	m.query("SELECT count(*) FROM mesh.revisions WHERE message = 'mcp-client bench'", &revisions)
	require.Equal(t, 4, revisions)
	for _, args := range [][]string{{"bench", "--clients", "0"}, {"bench", "--changes=-1"}, {"bench", "--kind", "nothing"}, {"bench", "x"}} {
		require.Equal(t, 2, m.run(args...).code, args)
	}
	require.Equal(t, 4, run(t.Context(), "", nil, "bench", "--server", "127.0.0.1:1", "--insecure").code)
}
