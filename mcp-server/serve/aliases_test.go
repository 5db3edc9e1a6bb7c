package serve_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// fill applies a resource of each kind, and returns them.
func fill(t *testing.T, address string) map[*kinds.Kind]*kinds.Resource {
	t.Helper()
	text, err := os.ReadFile("../../kinds/testdata/every-kind.yaml")
	require.NoError(t, err)
	documents, err := kinds.Parse("every-kind.yaml", text)
	require.NoError(t, err)
	conn, err := grpc.NewClient(address, plaintext...)
	require.NoError(t, err)
	defer conn.Close()
	_, err = adminv1.NewAdminServiceClient(conn).Apply(t.Context(), &adminv1.ApplyRequest{Documents: []*adminv1.Document{{Content: text, Line: 1}}})
	require.NoError(t, err)
	all := map[*kinds.Kind]*kinds.Resource{}
	for _, d := range documents {
		all[d.Resource.Kind] = d.Resource
	}
	return all
}

func TestEveryKindIsServedByEachOfItsNames(t *testing.T) {
	t.Parallel()
	address := launch(t, serve.Options{Database: pgtest.New(t)}).MCP.String()
	written := fill(t, address)
	eachForm(t, func(t *testing.T, open func(string) *xds) {
		x := open(address)
		for _, kind := range kinds.All() {
			for _, typeURL := range kind.TypeURLs() {
				x.ask(typeURL)
				h := x.next(typeURL)
				x.ack(h)
				require.Len(t, h.bodies, 1, typeURL)
				name := ""
				if h.names != nil {
					name = h.names[0]
				}
				got, err := kinds.FromAny(kind, name, h.bodies[0])
				require.NoError(t, err, typeURL)
				want := written[kind]
				require.Equal(t, want.Key(), got.Key())
				require.True(t, want.Spec.Equal(got.Spec), "%s: %v became %v", typeURL, want.Spec.Message(), got.Spec.Message())
				wrapped := h.bodies[0].GetTypeUrl() == "type.googleapis.com/istio.mcp.v1alpha1.Resource"
				require.Equal(t, kind.Name != "MeshConfig" && kind.Name != "MeshNetworks", wrapped, typeURL)
				_, isStruct := got.Spec.Message().(*structpb.Struct)
				require.Equal(t, kind.Message == "", isStruct, "the kinds of the Gateway API have no message")
			}
		}
	})
}

// Istio and the Gateway API both have a kind Gateway.
func TestKindsOfOneNameAreKeptApart(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	execute(t, database, `INSERT INTO mesh.resources (api_group, kind, name, spec) VALUES ('networking.istio.io', 'Gateway', 'a',
		'{"servers": [{"hosts": ["*"], "port": {"number": 80, "name": "http", "protocol": "HTTP"}}]}')`)
	address := launch(t, serve.Options{Database: database}).MCP.String()
	eachForm(t, func(t *testing.T, open func(string) *xds) {
		x := open(address)
		x.ask("networking.istio.io/v1/Gateway")
		require.Len(t, x.next("networking.istio.io/v1/Gateway").bodies, 1)
		x.ask("gateway.networking.k8s.io/v1/Gateway")
		require.Empty(t, x.next("gateway.networking.k8s.io/v1/Gateway").bodies)
	})
}

// A client that asks for an unknown kind waits for an answer, which is empty.
func TestUnknownKindsAreAnsweredEmpty(t *testing.T) {
	t.Parallel()
	address := launch(t, serve.Options{Database: pgtest.New(t)}).MCP.String()
	fill(t, address)
	eachForm(t, func(t *testing.T, open func(string) *xds) {
		x := open(address)
		for _, typeURL := range []string{
			"core/v1/Pod", "networking.istio.io/v9/VirtualService", "type.googleapis.com/networking.istio.io/v1/VirtualService",
			"type.googleapis.com/envoy.config.cluster.v3.Cluster", "VirtualService", "/", "",
		} {
			x.ask(typeURL)
			require.Empty(t, x.next(typeURL).bodies, typeURL)
		}
	})
}
