package cluster

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/dns"
	"github.com/pgmesh/pgmesh/discovery/translate/endpoint"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// discover sets where the endpoints come from, and reports whether there can be any.
func (d *draft) discover(v view.View, u upstream.Upstream) bool {
	if upstream.IsDynamic(u.Service) {
		d.discoverPerRequest(dns.ServiceCache(v, u.Service))
		// On a router, anybody's requests would name the host, which could be the router's own.
		return v.Sidecar() || u.Reach != mesh.ReachNetwork
	}
	kind := upstream.DiscoveryType(v, u)
	d.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: kind}
	switch kind {
	case clusterv3.Cluster_STRICT_DNS, clusterv3.Cluster_LOGICAL_DNS:
		return d.discoverByDNS(v, u)
	case clusterv3.Cluster_ORIGINAL_DST:
		if u.Service.ResolvedByDNS() && len(u.OfAll().Endpoints()) == 0 {
			return false // as in Istio: there is a service only where there are names
		}
		if u.Service.Resolution == mesh.ResolutionNone && u.Port.Target > 0 {
			d.LbConfig = &clusterv3.Cluster_OriginalDstLbConfig_{
				OriginalDstLbConfig: &clusterv3.Cluster_OriginalDstLbConfig{UpstreamPortOverride: wrapperspb.UInt32(u.Port.Target)},
			}
		}
	default:
		d.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{ServiceName: d.Name, EdsConfig: message.OverADS()}
	}
	return true
}

// discoverByDNS puts the names into the cluster.
func (d *draft) discoverByDNS(v view.View, u upstream.Upstream) bool {
	localities := endpoint.Of(v, u)
	if len(localities) == 0 {
		return false
	}
	d.LoadAssignment = &endpointv3.ClusterLoadAssignment{ClusterName: d.Name, Endpoints: localities}
	if d.GetType() == clusterv3.Cluster_LOGICAL_DNS && count(localities) != 1 {
		// Envoy wants exactly one name. Other ServiceEntries may add to it, gateways to other
		// networks may stand for it, or none may be known.
		d.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS}
	}
	dns.Resolve(v, d.Cluster)
	if u.Service.RacesConnections() {
		d.DnsLookupFamily = clusterv3.Cluster_ALL
	}
	return true
}

func count(localities []*endpointv3.LocalityLbEndpoints) (n int) {
	for _, l := range localities {
		n += len(l.GetLbEndpoints())
	}
	return n
}
