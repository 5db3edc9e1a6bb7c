package envoy

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// cluster checks that the parts of a cluster go together. Patches meant for clusters with endpoints
// often break this when they also match clusters without.
func (c *checker) cluster(p place, m *clusterv3.Cluster) {
	if p.partial {
		return
	}
	c.balancing(p, m)
	c.endpoints(p, m)
	c.balancerSettings(p, m)
	c.sockets(p, m)
	c.ejection(p, m.GetOutlierDetection())
}

// ejection checks that the longest ejection is not shorter than the shortest.
func (c *checker) ejection(p place, d *clusterv3.OutlierDetection) {
	if d.GetMaxEjectionTime() == nil {
		return
	}
	base := 30 * time.Second // Envoy's default
	if d.GetBaseEjectionTime() != nil {
		base = d.GetBaseEjectionTime().AsDuration()
	}
	if d.GetMaxEjectionTime().AsDuration() < base {
		c.invalid(c.at(p, "outlier_detection"), fmt.Sprintf("max_ejection_time is shorter than base_ejection_time, which is %s", base), "")
	}
}

func (c *checker) at(p place, field string) string {
	return p.below(p.message.Descriptor().Fields().ByTextName(field), "").path
}

// clusterBalanced lists the cluster types that choose their endpoints themselves.
var clusterBalanced = []protoreflect.FullName{
	"envoy.extensions.clusters.aggregate.v3.ClusterConfig",
	"envoy.extensions.clusters.dynamic_forward_proxy.v3.ClusterConfig",
	"envoy.extensions.clusters.original_dst.v3.OriginalDstCluster",
}

// eitherBalanced reports whether a cluster's extension may or may not choose its endpoints itself.
func eitherBalanced(m *clusterv3.Cluster) bool {
	return m.GetClusterType() != nil && !slices.Contains(clusterBalanced, clusterConfig(m)) && clusterConfig(m) != "envoy.extensions.clusters.dns.v3.DnsCluster"
}

func clusterConfig(m *clusterv3.Cluster) protoreflect.FullName {
	return typeOf(m.GetClusterType().GetTypedConfig())
}

// balancing checks that the load balancing policy fits the type of the cluster.
func (c *checker) balancing(p place, m *clusterv3.Cluster) {
	original := m.GetClusterType() == nil && m.GetType() == clusterv3.Cluster_ORIGINAL_DST
	policy, at := m.GetLbPolicy(), c.at(p, "lb_policy")
	provided := policy == clusterv3.Cluster_CLUSTER_PROVIDED
	if policies := m.GetLoadBalancingPolicy().GetPolicies(); len(policies) > 0 {
		provided = typeOf(policies[0].GetTypedExtensionConfig().GetTypedConfig()) == "envoy.extensions.load_balancing_policies.cluster_provided.v3.ClusterProvided"
	}
	own := original || slices.Contains(clusterBalanced, clusterConfig(m))
	switch {
	case original && policy != clusterv3.Cluster_CLUSTER_PROVIDED, own && !provided:
		c.invalid(at, "the cluster chooses its endpoints itself: it can have no policy but CLUSTER_PROVIDED", "match the clusters that have endpoints")
	case !own && provided && !eitherBalanced(m):
		c.invalid(at, "CLUSTER_PROVIDED is for clusters that choose their endpoints themselves", "name another policy")
	case policy == clusterv3.Cluster_LOAD_BALANCING_POLICY_CONFIG && m.GetLoadBalancingPolicy() == nil:
		c.invalid(at, "there is no load_balancing_policy", "")
	case m.GetLbSubsetConfig() != nil && len(m.GetLbSubsetConfig().GetSubsetSelectors()) > 0 && (provided || m.GetLoadBalancingPolicy() != nil):
		c.invalid(c.at(p, "lb_subset_config"), "the cluster's policy has no subsets", "")
	}
}

// endpoints checks that the source of the endpoints fits the type of the cluster.
func (c *checker) endpoints(p place, m *clusterv3.Cluster) {
	eds := m.GetClusterType() == nil && m.GetType() == clusterv3.Cluster_EDS
	switch {
	case eds && m.GetEdsClusterConfig().GetEdsConfig() == nil:
		c.invalid(c.at(p, "eds_cluster_config"), "a cluster of the type EDS needs an eds_config", "")
	case !eds && m.GetEdsClusterConfig() != nil:
		c.invalid(c.at(p, "eds_cluster_config"), "is for clusters of the type EDS alone", "")
	}
	if m.GetClusterType() != nil {
		return
	}
	var hosts []string
	for _, locality := range m.GetLoadAssignment().GetEndpoints() {
		for _, e := range locality.GetLbEndpoints() {
			hosts = append(hosts, e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())
		}
	}
	at := c.at(p, "load_assignment")
	switch {
	case m.GetType() == clusterv3.Cluster_ORIGINAL_DST && m.GetLoadAssignment() != nil:
		c.invalid(at, "a cluster of the type ORIGINAL_DST has no endpoints", "")
	case m.GetType() == clusterv3.Cluster_LOGICAL_DNS && len(hosts) != 1:
		c.invalid(at, "a cluster of the type LOGICAL_DNS has exactly one endpoint", "STRICT_DNS may have several")
	}
}

// balancerSettings checks the settings of the load balancing policy.
func (c *checker) balancerSettings(p place, m *clusterv3.Cluster) {
	if m.GetLoadBalancingPolicy() != nil {
		return // the policy's settings are not used
	}
	ring, table := m.GetRingHashLbConfig(), m.GetMaglevLbConfig().GetTableSize()
	const largestRing = 8 << 20
	smallest, largest := uint64(1024), uint64(largestRing)
	if ring.GetMinimumRingSize() != nil {
		smallest = ring.GetMinimumRingSize().GetValue()
	}
	if ring.GetMaximumRingSize() != nil {
		largest = ring.GetMaximumRingSize().GetValue()
	}
	switch {
	case m.GetLbPolicy() == clusterv3.Cluster_RING_HASH && smallest > largest:
		c.invalid(c.at(p, "ring_hash_lb_config"), fmt.Sprintf("minimum_ring_size (%d) is more than maximum_ring_size (%d)", smallest, largest), "")
	case m.GetLbPolicy() == clusterv3.Cluster_MAGLEV && table != nil && !new(big.Int).SetUint64(table.GetValue()).ProbablyPrime(0):
		c.invalid(c.at(p, "maglev_lb_config"), fmt.Sprintf("table_size is %d, which is no prime number", table.GetValue()), "")
	}
}

// sockets checks the transport sockets of a cluster.
func (c *checker) sockets(p place, m *clusterv3.Cluster) {
	if m.GetTransportSocket() != nil {
		c.socket(c.at(p, "transport_socket"), m.GetTransportSocket())
	}
	list := p.message.Descriptor().Fields().ByTextName("transport_socket_matches")
	for i, chosen := range m.GetTransportSocketMatches() {
		c.socket(p.below(list, strconv.Itoa(i)).path, chosen.GetTransportSocket())
	}
}

func (c *checker) socket(path string, m *corev3.TransportSocket) {
	switch packed := m.GetTypedConfig(); {
	case packed == nil:
		c.invalid(path, "the transport socket has no typed_config", "Envoy knows them by the type of their configuration alone")
	case !category{upstreamSockets}.has(typeOf(packed)):
		c.invalid(path, fmt.Sprintf("%s is not the configuration of a transport socket of clusters", typeOf(packed)), "")
	}
}
