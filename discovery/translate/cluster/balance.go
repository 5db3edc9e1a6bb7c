package cluster

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
)

// applyLoadBalancer sets how an endpoint is chosen. By default it is the less busy of two taken at
// random.
func (d *draft) applyLoadBalancer(lb *networking.LoadBalancerSettings) {
	if d.GetType() == clusterv3.Cluster_ORIGINAL_DST {
		d.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
		return
	}
	if hash := lb.GetConsistentHash(); hash != nil {
		d.applyConsistentHash(hash)
		return
	}
	switch lb.GetSimple() {
	case networking.LoadBalancerSettings_RANDOM:
		d.LbPolicy = clusterv3.Cluster_RANDOM
	case networking.LoadBalancerSettings_ROUND_ROBIN:
		d.applyRoundRobin(lb)
	default: // LEAST_REQUEST, its old name LEAST_CONN, and nothing said
		d.applyLeastRequest(lb)
	}
}

func (d *draft) applyRoundRobin(lb *networking.LoadBalancerSettings) {
	d.LbPolicy = clusterv3.Cluster_ROUND_ROBIN
	if warmup := slowStart(lb); warmup != nil {
		d.LbConfig = &clusterv3.Cluster_RoundRobinLbConfig_{
			RoundRobinLbConfig: &clusterv3.Cluster_RoundRobinLbConfig{SlowStartConfig: warmup},
		}
	}
}

func (d *draft) applyLeastRequest(lb *networking.LoadBalancerSettings) {
	d.LbPolicy = clusterv3.Cluster_LEAST_REQUEST
	if warmup := slowStart(lb); warmup != nil {
		d.LbConfig = &clusterv3.Cluster_LeastRequestLbConfig_{
			LeastRequestLbConfig: &clusterv3.Cluster_LeastRequestLbConfig{SlowStartConfig: warmup},
		}
	}
}

// slowStart lets new endpoints take their share little by little.
func slowStart(lb *networking.LoadBalancerSettings) *clusterv3.Cluster_SlowStartConfig {
	if w := lb.GetWarmup(); w != nil {
		return &clusterv3.Cluster_SlowStartConfig{
			SlowStartWindow:  w.GetDuration(),
			Aggression:       &corev3.RuntimeDouble{DefaultValue: valueOr(w.GetAggression(), 1), RuntimeKey: noRuntimeKey},
			MinWeightPercent: &typev3.Percent{Value: valueOr(w.GetMinimumPercent(), 10)},
		}
	}
	if window := lb.GetWarmupDurationSecs(); window != nil {
		return &clusterv3.Cluster_SlowStartConfig{SlowStartWindow: window}
	}
	return nil
}

// noRuntimeKey fills a field in which Envoy requires the name of a runtime setting. Istio writes
// the same.
const noRuntimeKey = "("

func valueOr(v *wrapperspb.DoubleValue, fallback float64) float64 {
	if v == nil {
		return fallback
	}
	return v.GetValue()
}

// defaultRingSize is Istio's, if neither algorithm nor size is given.
const defaultRingSize = 1024

// applyConsistentHash sends requests with one key to one endpoint. The route says what the key is.
func (d *draft) applyConsistentHash(hash *networking.LoadBalancerSettings_ConsistentHashLB) {
	if maglev := hash.GetMaglev(); maglev != nil {
		d.LbPolicy = clusterv3.Cluster_MAGLEV
		if maglev.GetTableSize() > 0 {
			d.LbConfig = &clusterv3.Cluster_MaglevLbConfig_{
				MaglevLbConfig: &clusterv3.Cluster_MaglevLbConfig{TableSize: wrapperspb.UInt64(maglev.GetTableSize())},
			}
		}
		return
	}
	d.LbPolicy = clusterv3.Cluster_RING_HASH
	size := uint64(defaultRingSize)
	if ring := hash.GetRingHash(); ring != nil {
		size = ring.GetMinimumRingSize()
	} else if deprecated := hash.GetMinimumRingSize(); deprecated > 0 { //nolint:staticcheck // people still write it
		size = deprecated
	}
	if size > 0 {
		d.LbConfig = &clusterv3.Cluster_RingHashLbConfig_{
			RingHashLbConfig: &clusterv3.Cluster_RingHashLbConfig{MinimumRingSize: wrapperspb.UInt64(min(size, largestRing))},
		}
	}
}

// largestRing is the largest that Envoy takes.
const largestRing = 8 << 20
