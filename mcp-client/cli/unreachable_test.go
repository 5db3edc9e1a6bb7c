package cli_test

import (
	"context"
	"net"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
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
			r := clitest.Run(t.Context(), clitest.VirtualService("default", "a", "b"), nil, append(args, "--insecure", "--server", address)...)
			require.Equal(t, clitest.Result{Code: 4, Out: "", Err: "error: cannot reach the server at " + address + ": connection refused. " +
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
			r := clitest.Run(t.Context(), clitest.VirtualService("default", "a", "b"), nil, append(args, "--insecure", "--server", l.Addr().String(), "--timeout", "200ms")...)
			require.Equal(t, 4, r.Code)
			require.Contains(t, r.Err, "the server at "+l.Addr().String()+" did not answer within 200ms.")
		})
	}
}

// gRPC gives up on such a server before we do, in words that made us advise another flag.
func TestHungServerIsNamed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	r := clitest.Run(t.Context(), "", nil, "get", "vs", "--insecure", "--server", l.Addr().String(), "--timeout", "1m")
	require.Equal(t, clitest.Result{Code: 4, Err: "error: the server at " + l.Addr().String() + " takes connections and says nothing. It may hang: ask its /readyz, and see its log\n"}, r)
}

func TestPlaintextMustBeExplicit(t *testing.T) {
	t.Parallel()
	plaintext := clitest.ServeGRPC(t, func(*grpc.Server) {})
	for name, args := range commands {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := clitest.VirtualService("default", "a", "b")
			r := clitest.Run(t.Context(), in, nil, append(args, "--server", plaintext)...)
			require.Equal(t, 4, r.Code)
			require.Contains(t, r.Err, "it does not speak TLS. Add --insecure if it is on this machine")
			r = clitest.Run(t.Context(), in, nil, append(args, "--insecure", "--server", "192.0.2.1:1")...)
			require.Equal(t, 2, r.Code)
			require.Contains(t, r.Err, "--insecure-any-address")
			r = clitest.Run(t.Context(), in, nil, append(args, "--insecure", "--server", "nowhere")...)
			require.Equal(t, 2, r.Code)
			require.Contains(t, r.Err, "host:port")
		})
	}
}

func TestReadFromForeignServer(t *testing.T) {
	t.Parallel()
	address := clitest.ServeGRPC(t, func(s *grpc.Server) { discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, clitest.Stock{}) })
	env := map[string]string{"PGMESH_SERVER": address, "PGMESH_INSECURE": "true", "PGMESH_OUTPUT": "name"}

	require.Equal(t, clitest.Result{Code: 0, Out: "virtualservice.networking.istio.io/default/reviews\n", Err: ""}, clitest.Run(t.Context(), "", env, "get", "all"))
	require.Equal(t, clitest.Result{Code: 0, Out: "NAMESPACE   NAME      GATEWAYS   HOSTS   AGE\ndefault     reviews   mesh       a       -\n", Err: ""},
		clitest.Run(t.Context(), "", env, "get", "vs", "-o", "table"))
	r := clitest.Run(t.Context(), "", env, "delete", "vs", "reviews")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Err, "the server at "+address+" does not offer this")
}

func TestServerWithoutMCPIsNamed(t *testing.T) {
	t.Parallel()
	address := clitest.ServeGRPC(t, func(*grpc.Server) {})
	r := clitest.Run(t.Context(), "", nil, "get", "vs", "--insecure", "--server", address)
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Err, "the server at "+address+" does not offer this")
}

func TestEnvironmentSetsFlags(t *testing.T) {
	t.Parallel()
	r := clitest.Run(t.Context(), "", map[string]string{"PGMESH_TIMEOUT": "soon"}, "get", "vs")
	require.Equal(t, 2, r.Code)
	require.Contains(t, r.Err, `the environment variable PGMESH_TIMEOUT: invalid argument "soon"`)
	r = clitest.Run(t.Context(), "", map[string]string{"PGMESH_SERVER": "192.0.2.1:1"}, "get", "vs", "--server", "192.0.2.2:1", "--insecure")
	require.Contains(t, r.Err, "192.0.2.2:1", "a flag wins over its variable")
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
			r := clitest.Run(ctx, clitest.VirtualService("default", "a", "b"), nil, append(args, "--insecure", "--server", l.Addr().String())...)
			require.Equal(t, clitest.Result{Code: 130}, r)
		})
	}
}
