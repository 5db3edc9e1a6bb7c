package cli_test

import (
	"context"
	"net"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"
	mcpapi "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

// commands lists commands that call the server, with their standard input.
var commands = map[string][]string{
	"get":    {"get", "vs"},
	"watch":  {"watch"},
	"apply":  {"apply", "-f", "-"},
	"delete": {"delete", "vs", "a"},

	"bench":         {"bench", "--clients", "2"},
	"blame":         {"blame", "vs/a"},
	"compare":       {"compare", "testdata/one.yaml"},
	"confirm":       {"confirm"},
	"describe":      {"describe", "vs"},
	"diff of files": {"diff", "-f", "-"},
	"diff":          {"diff", "1"},
	"edit":          {"edit", "vs/a"},
	"export":        {"export"},
	"history":       {"history"},
	"import":        {"import", "-"},
	"problems":      {"problems"},
	"restore":       {"restore", "--to", "1", "--dry-run"},
	"revert":        {"revert", "1"},
	"snapshot save": {"snapshot", "save", "-"},
	"status":        {"status"},
}

func TestUnreachableServerIsNamed(t *testing.T) {
	t.Parallel()
	const address = "127.0.0.1:1" // a port that was free a moment ago may be another test's by now
	for name, args := range commands {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t.Context(), virtualService("default", "a", "b"), nil, append(args, "--insecure", "--server", address)...)
			require.Equal(t, result{4, "", "error: cannot reach the server at " + address + ": connection refused. " +
				"Check that it runs and listens there, or name another with --server or PGMESH_SERVER\n"}, r)
		})
	}
}

func TestSilentServerTimesOut(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, and nobody answers
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	for name, args := range commands {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t.Context(), virtualService("default", "a", "b"), nil, append(args, "--insecure", "--server", l.Addr().String(), "--timeout", "200ms")...)
			require.Equal(t, 4, r.code)
			require.Contains(t, r.err, "the server at "+l.Addr().String()+" did not answer within 200ms.")
		})
	}
}

func TestPlaintextMustBeExplicit(t *testing.T) {
	t.Parallel()
	plaintext := serveGRPC(t, func(*grpc.Server) {})
	for name, args := range commands {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := virtualService("default", "a", "b")
			r := run(t.Context(), in, nil, append(args, "--server", plaintext)...)
			require.Equal(t, 4, r.code)
			require.Contains(t, r.err, "It does not speak TLS: add --insecure if it is on this machine")
			r = run(t.Context(), in, nil, append(args, "--insecure", "--server", "192.0.2.1:1")...)
			require.Equal(t, 2, r.code)
			require.Contains(t, r.err, "--insecure-any-address")
			r = run(t.Context(), in, nil, append(args, "--insecure", "--server", "nowhere")...)
			require.Equal(t, 2, r.code)
			require.Contains(t, r.err, "host:port")
		})
	}
}

// stock is a server like Istio's: it speaks only the state of the world, has no revisions and no admin API.
type stock struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
}

func (stock) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client is gone
		}
		if req.GetResponseNonce() != "" {
			continue
		}
		resp := &discoveryv3.DiscoveryResponse{TypeUrl: req.GetTypeUrl(), Nonce: "n", VersionInfo: "1"}
		if req.GetTypeUrl() == "networking.istio.io/v1/VirtualService" {
			body, err := anypb.New(&networking.VirtualService{Hosts: []string{"a"}})
			if err != nil {
				return err
			}
			envelope, err := anypb.New(&mcpapi.Resource{Metadata: &mcpapi.Metadata{Name: "default/reviews"}, Body: body})
			if err != nil {
				return err
			}
			resp.Resources = []*anypb.Any{envelope}
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
}

// serveGRPC serves until the test ends, and returns the address.
func serveGRPC(t *testing.T, register func(*grpc.Server)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	return l.Addr().String()
}

func TestReadFromForeignServer(t *testing.T) {
	t.Parallel()
	address := serveGRPC(t, func(s *grpc.Server) { discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, stock{}) })
	env := map[string]string{"PGMESH_SERVER": address, "PGMESH_INSECURE": "true", "PGMESH_OUTPUT": "name"}

	require.Equal(t, result{0, "virtualservice.networking.istio.io/default/reviews\n", ""}, run(t.Context(), "", env, "get", "all"))
	require.Equal(t, result{0, "NAMESPACE   NAME      GATEWAYS   HOSTS   AGE\ndefault     reviews   mesh       a       -\n", ""},
		run(t.Context(), "", env, "get", "vs", "-o", "table"))
	r := run(t.Context(), "", env, "delete", "vs", "reviews")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "the server at "+address+" does not offer this")
}

func TestServerWithoutMCPIsNamed(t *testing.T) {
	t.Parallel()
	address := serveGRPC(t, func(*grpc.Server) {})
	r := run(t.Context(), "", nil, "get", "vs", "--insecure", "--server", address)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "the server at "+address+" does not offer this")
}

func TestEnvironmentSetsFlags(t *testing.T) {
	t.Parallel()
	r := run(t.Context(), "", map[string]string{"PGMESH_TIMEOUT": "soon"}, "get", "vs")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, `the environment variable PGMESH_TIMEOUT: invalid argument "soon"`)
	r = run(t.Context(), "", map[string]string{"PGMESH_SERVER": "192.0.2.1:1"}, "get", "vs", "--server", "192.0.2.2:1", "--insecure")
	require.Contains(t, r.err, "192.0.2.2:1", "a flag wins over its variable")
}

func TestInterruptIsSilent(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	for name, args := range commands {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			r := run(ctx, virtualService("default", "a", "b"), nil, append(args, "--insecure", "--server", l.Addr().String())...)
			require.Equal(t, result{code: 130}, r)
		})
	}
}
