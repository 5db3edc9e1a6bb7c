package cluster

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	dynamicforwardproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dynamic_forward_proxy/v3"
	dnscachev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// discoverPerRequest resolves the host that a request names, when it is first named.
func (d *draft) discoverPerRequest(cache *dnscachev3.DnsCacheConfig) {
	d.dynamic = &dynamicforwardproxyv3.ClusterConfig{
		ClusterImplementationSpecifier: &dynamicforwardproxyv3.ClusterConfig_DnsCacheConfig{DnsCacheConfig: cache},
	}
	d.ClusterDiscoveryType = &clusterv3.Cluster_ClusterType{
		ClusterType: &clusterv3.Cluster_CustomClusterType{Name: "envoy.clusters.dynamic_forward_proxy"},
	}
	d.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	d.CommonLbConfig = nil // there is nothing to choose from
}

// packDynamic writes down how names are resolved. If a cluster has HTTP options, Envoy insists that
// they ask the server for the resolved name, and check it, unless it is told otherwise. Without TLS
// there is neither.
func (d *draft) packDynamic() {
	if o := d.http.GetUpstreamHttpProtocolOptions(); d.http != nil && (!o.GetAutoSni() || !o.GetAutoSanValidation()) {
		d.dynamic.AllowInsecureClusterOptions = true
	}
	d.GetClusterType().TypedConfig = message.Pack(d.dynamic)
}
