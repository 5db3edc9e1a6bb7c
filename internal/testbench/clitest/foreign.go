package clitest

import (
	"net"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"
	mcpapi "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

// Stock is a server like Istio's: it speaks only the state of the world, has no revisions and no
// admin API.
type Stock struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
}

// StreamAggregatedResources serves one VirtualService.
func (Stock) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
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

// ServeGRPC serves until the test ends, and returns the address.
func ServeGRPC(t *testing.T, register func(*grpc.Server)) string {
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
