package cluster

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	leastrequestv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/least_request/v3"
	overridehostv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/override_host/v3"
	randomv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/random/v3"
	roundrobinv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/round_robin/v3"
	subsetv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/subset/v3"
	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/type/metadata/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
)

// letPick has requests go to the endpoint that the picker of a pool has chosen, of those of the pool. If
// it has chosen none of them, or nobody has asked it, what its failureMode says decides: so nothing is
// sent blindly where the request is to fail, whichever listener it came by.
func (d *draft) letPick(pool *gatewayapi.Pool) {
	if pool == nil {
		return
	}
	otherwise := nobody()
	if pool.Picker.FailOpen {
		otherwise = d.balanced()
	}
	d.LoadBalancingPolicy = policy("override_host", &overridehostv3.OverrideHost{
		OverrideHostSources: []*overridehostv3.OverrideHost_OverrideHostSource{
			{Metadata: choice(naming.ChosenEndpoint)}, {Header: naming.ChosenEndpoint},
		},
		SelectedHostKey: choice(naming.AnsweredEndpoint),
		FallbackPolicy:  otherwise,
	})
	d.LbPolicy, d.LbConfig = clusterv3.Cluster_ROUND_ROBIN, nil // which do not count beside it
	d.CommonLbConfig.LocalityConfigSpecifier = nil
}

// choice is where metadata has something of what a picker chose.
func choice(key string) *metadatav3.MetadataKey {
	return &metadatav3.MetadataKey{
		Key: naming.ChoiceMetadata, Path: []*metadatav3.MetadataKey_PathSegment{{Segment: &metadatav3.MetadataKey_PathSegment_Key{Key: key}}},
	}
}

// balanced chooses as a DestinationRule says. No key of requests is hashed to an endpoint.
func (d *draft) balanced() *clusterv3.LoadBalancingPolicy {
	switch d.GetLbPolicy() {
	case clusterv3.Cluster_RANDOM:
		return policy("random", &randomv3.Random{})
	case clusterv3.Cluster_ROUND_ROBIN:
		return policy("round_robin", &roundrobinv3.RoundRobin{})
	default:
		return policy("least_request", &leastrequestv3.LeastRequest{})
	}
}

// nobody chooses no endpoint: it looks for one with a label that none can have.
func nobody() *clusterv3.LoadBalancingPolicy {
	return policy("subset", &subsetv3.Subset{
		FallbackPolicy:  subsetv3.Subset_NO_FALLBACK,
		SubsetSelectors: []*subsetv3.Subset_LbSubsetSelector{{Keys: []string{"nobody~"}}},
		SubsetLbPolicy:  policy("round_robin", &roundrobinv3.RoundRobin{}),
	})
}

func policy(name string, config proto.Message) *clusterv3.LoadBalancingPolicy {
	return &clusterv3.LoadBalancingPolicy{Policies: []*clusterv3.LoadBalancingPolicy_Policy{{
		TypedExtensionConfig: &corev3.TypedExtensionConfig{Name: "envoy.load_balancing_policies." + name, TypedConfig: message.Pack(config)},
	}}}
}
