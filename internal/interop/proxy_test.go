package interop

import (
	"context"
	"slices"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"
)

const clusters = "type.googleapis.com/envoy.config.cluster.v3.Cluster"

// outbound names the clusters that a control plane gives a sidecar for the services of the mesh, in order.
func outbound(t require.TestingT, server string) (names []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := grpc.NewClient(server, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	require.NoError(t, err)
	metadata, err := structpb.NewStruct(map[string]any{"NAMESPACE": "default", "INTERCEPTION_MODE": "NONE", "ISTIO_VERSION": "1.31.0"})
	require.NoError(t, err)
	require.NoError(t, stream.Send(&discoveryv3.DiscoveryRequest{
		TypeUrl: clusters,
		Node:    &corev3.Node{Id: "sidecar~10.2.0.1~client.default~default.svc.cluster.local", Metadata: metadata},
	}))
	answer, err := stream.Recv()
	require.NoError(t, err)
	for _, r := range answer.GetResources() {
		var c clusterv3.Cluster
		require.NoError(t, r.UnmarshalTo(&c))
		if strings.HasPrefix(c.GetName(), "outbound|") {
			names = append(names, c.GetName())
		}
	}
	slices.Sort(names)
	return names
}
