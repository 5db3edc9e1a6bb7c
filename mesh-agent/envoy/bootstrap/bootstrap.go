package bootstrap

import (
	"fmt"
	"net"
	"strconv"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/identity/agentsecret"
)

// New returns the bootstrap, or all problems of the options.
func New(o Options) (*bootstrapv3.Bootstrap, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	n, err := node(o)
	if err != nil {
		return nil, err
	}
	b := &bootstrapv3.Bootstrap{
		Node:  n,
		Admin: &bootstrapv3.Admin{Address: socketAddress(o.Admin)},
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{
			AdsConfig: adsConfig(o.XDS),
			CdsConfig: overADS(),
			LdsConfig: overADS(),
		},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{
			Clusters: clusters(o),
		},
	}
	o.Tuning.apply(b)
	if err := b.ValidateAll(); err != nil {
		return nil, fmt.Errorf("the bootstrap is not one that Envoy accepts: %w", err)
	}
	return b, nil
}

// clusters returns the clusters for configuration and secrets. Both lead to the agent's socket.
func clusters(o Options) []*clusterv3.Cluster {
	out := []*clusterv3.Cluster{agentCluster(discoveryName, o.Socket)}
	if o.Identity {
		out = append(out, agentCluster(agentsecret.Cluster, o.Socket))
	}
	return out
}

// JSON encodes a bootstrap as Envoy reads it from a file.
func JSON(b *bootstrapv3.Bootstrap) ([]byte, error) {
	return protojson.MarshalOptions{Multiline: true, UseProtoNames: true}.Marshal(b)
}

// overADS waits for the first response without limit: an Envoy that stopped waiting would listen
// with half a configuration.
func overADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		InitialFetchTimeout:   durationpb.New(0),
	}
}

func socketAddress(hostPort string) *corev3.Address {
	host, port, _ := net.SplitHostPort(hostPort)
	number, _ := strconv.ParseUint(port, 10, 16)
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       host,
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(number)},
	}}}
}
