package serve

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/dial"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/kinds"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// foreign serves snapshots over xDS as another vendor's server, without revisions.
func foreign(t *testing.T) (topic *served.Topic, address string) {
	t.Helper()
	topic = &served.Topic{}
	g := grpc.NewServer(grpc.WaitForHandlers(true))
	ads.NewServer(ads.Config{
		Open: func(context.Context, *corev3.Node, bool) (*served.Subscriber, error) { return topic.Subscribe(), nil },
	}).Register(g)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		require.NoError(t, <-served)
	})
	return topic, l.Addr().String()
}

// The flags reach the client, and the metrics show its state.
func TestASourceFromFlags(t *testing.T) {
	t.Parallel()
	topic, address := foreign(t)
	entry, ok := kinds.Lookup("networking.istio.io", "ServiceEntry")
	require.True(t, ok)
	body, err := (&kinds.Resource{Kind: entry, Namespace: "a", Name: "b", Spec: kinds.SpecOf(&networking.ServiceEntry{Hosts: []string{"h"}})}).Any("1")
	require.NoError(t, err)
	topic.Publish(&served.Snapshot{Revision: "1", Sets: map[string]*served.Set{
		entry.TypeURL(): served.NewSet(&served.Resource{Name: "a/b", Version: "1", Body: body}),
	}})

	var s MCP
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.Flags(f)
	require.Equal(t, []string{"127.0.0.1:15020"}, s.Addresses)
	require.NoError(t, f.Parse([]string{"--mcp", "127.0.0.1:1," + address, "--hold-empty", "1h", "--mcp-namespace", "istio-system", "--protocol", "xds"}))
	require.ErrorContains(t, f.Parse([]string{"--protocol", "rest"}), "expected one of auto")

	client, err := s.client(listen.Plaintext{Allowed: true}, dial.Nobody, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	batches, ended := make(chan kinds.Batch), make(chan error, 1)
	go func() { ended <- client.Run(ctx, func(b kinds.Batch) error { batches <- b; return nil }) }()
	require.Len(t, (<-batches).Changes, 1)
	topic.Publish(&served.Snapshot{Revision: "2", Sets: map[string]*served.Set{}})
	require.Eventually(t, func() bool { return len(client.Status().Held) == 1 }, 20*time.Second, time.Millisecond)
	require.NoError(t, testutil.CollectAndCompare(sourceCollector{address: client}, strings.NewReader(fmt.Sprintf(`
# HELP pgmesh_discovery_mcp_connected 1 while the stream to the MCP server is up.
# TYPE pgmesh_discovery_mcp_connected gauge
pgmesh_discovery_mcp_connected{servers=%[1]q} 1
# HELP pgmesh_discovery_mcp_held_resources Resources that stay in force although the MCP server has suddenly none of their kind.
# TYPE pgmesh_discovery_mcp_held_resources gauge
pgmesh_discovery_mcp_held_resources{kind="ServiceEntry.networking.istio.io",servers=%[1]q} 1
# HELP pgmesh_discovery_mcp_losses_total How often an MCP server that was followed has been lost.
# TYPE pgmesh_discovery_mcp_losses_total counter
pgmesh_discovery_mcp_losses_total{servers=%[1]q} 0
# HELP pgmesh_discovery_mcp_server_info 1 for the MCP server that is followed, or was last, and the protocol that is spoken with it.
# TYPE pgmesh_discovery_mcp_server_info gauge
pgmesh_discovery_mcp_server_info{protocol="xds",server=%[1]q,servers=%[1]q} 1
# HELP pgmesh_discovery_mcp_unanswered_types Types that the MCP server leaves unanswered. While there are any, nothing new is served to proxies.
# TYPE pgmesh_discovery_mcp_unanswered_types gauge
pgmesh_discovery_mcp_unanswered_types{servers=%[1]q} 0
`, address))))
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestServersElsewhereAreSpokenToOverTLS(t *testing.T) {
	t.Parallel()
	s := MCP{Addresses: []string{"192.0.2.1:15020"}}
	_, err := s.client(listen.Plaintext{Allowed: true}, dial.Nobody, nil)
	require.ErrorContains(t, err, "--mcp 192.0.2.1:15020: --insecure alone is for servers on loopback")
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.Flags(f)
	require.NoError(t, f.Parse([]string{"--mcp", "192.0.2.1:15020", "--mcp-tls-server-name", "mesh.example.com"}))
	_, err = s.client(listen.Plaintext{Allowed: true}, dial.Nobody, nil)
	require.NoError(t, err, "what this program serves without TLS is another matter")
	require.NoError(t, f.Parse([]string{"--mcp-tls-ca", "/nowhere"}))
	_, err = s.client(listen.Plaintext{}, dial.Nobody, nil)
	require.ErrorContains(t, err, "open /nowhere")
}
