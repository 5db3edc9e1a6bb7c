package interop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"
)

const clusters = "type.googleapis.com/envoy.config.cluster.v3.Cluster"

// services is how many clusters there are for ten services, one of them with a subset.
const services = 11

// sameClusters complains unless several control planes give a sidecar the same clusters for the
// services of the mesh.
func sameClusters(ctx context.Context, servers ...string) error {
	var first []string
	for i, server := range servers {
		names, err := outbound(ctx, server)
		switch {
		case err != nil:
			return fmt.Errorf("ask %s: %w", server, err)
		case len(names) != services:
			return fmt.Errorf("%s has %d clusters: %q", server, len(names), names)
		case i == 0:
			first = names
		case !slices.Equal(first, names):
			return fmt.Errorf("%s has %q, where %s has %q", server, names, servers[0], first)
		}
	}
	return nil
}

// outbound names the clusters that a control plane gives a sidecar for the services of the mesh, in
// order.
func outbound(ctx context.Context, server string) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := grpc.NewClient(server, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return nil, err
	}
	metadata, err := structpb.NewStruct(map[string]any{"NAMESPACE": "default", "INTERCEPTION_MODE": "NONE", "ISTIO_VERSION": "1.31.0"})
	if err != nil {
		return nil, err
	}
	if err := stream.Send(&discoveryv3.DiscoveryRequest{
		TypeUrl: clusters, Node: &corev3.Node{Id: "sidecar~10.2.0.1~client.default~default.svc.cluster.local", Metadata: metadata},
	}); err != nil {
		return nil, err
	}
	answer, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	return outboundOf(answer)
}

func outboundOf(answer *discoveryv3.DiscoveryResponse) (names []string, err error) {
	for _, r := range answer.GetResources() {
		var c clusterv3.Cluster
		if err := r.UnmarshalTo(&c); err != nil {
			return nil, err
		}
		if strings.HasPrefix(c.GetName(), "outbound|") {
			names = append(names, c.GetName())
		}
	}
	slices.Sort(names)
	return names, nil
}
