package translate

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	dynamicforwardproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dynamic_forward_proxy/v3"
	upstreamhttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/dns"
	"github.com/pgmesh/pgmesh/discovery/translate/endpoint"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/transport"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Clusters returns every cluster of a proxy: one for each port of each service and subset that it may see, the fixed
// ones, and those of the ports that its own workload serves.
func Clusters(m *mesh.Mesh, p *mesh.Proxy) []*clusterv3.Cluster {
	s := ViewOf(m, p)
	var out []*clusterv3.Cluster
	for _, b := range upstream.Backends(s.View) {
		out = append(out, s.Clusters(b)...)
	}
	return append(out, s.OwnClusters()...)
}

func clustersOf(v view.View, upstreams []upstream.Upstream) []*clusterv3.Cluster {
	var out []*clusterv3.Cluster
	for _, u := range upstreams {
		if c := cluster(v, u); c != nil {
			out = append(out, c)
		}
	}
	return out
}

// draft is a cluster with what is packed into it last.
type draft struct {
	*clusterv3.Cluster

	http    *upstreamhttpv3.HttpProtocolOptions
	dynamic *dynamicforwardproxyv3.ClusterConfig
}

func (d *draft) passesThrough() bool {
	return d.GetType() == clusterv3.Cluster_ORIGINAL_DST && d.dynamic == nil
}

func (d *draft) isHTTP2() bool {
	return d.http.GetExplicitHttpConfig().GetHttp2ProtocolOptions() != nil
}

// cluster returns nil for a service whose names nothing resolves.
func cluster(v view.View, u upstream.Upstream) *clusterv3.Cluster {
	d := draft{Cluster: &clusterv3.Cluster{
		Name:           u.Name(),
		AltStatName:    naming.Stat(upstream.Stat(v, u)),
		CommonLbConfig: &clusterv3.Cluster_CommonLbConfig{},
		Metadata:       clusterMetadata(u),
	}}
	if !discover(v, &d, u) {
		return nil
	}
	d.speak(u.Port.Protocol, v.Sidecar())
	if upgradesToHTTP2(u.Policy.GetConnectionPool(), u.Port, v.Config) {
		d.useHTTP2()
	}
	applyPool(v, &d, u.Policy.GetConnectionPool())
	limitRetries(d.Cluster, u.Policy.GetRetryBudget())
	applyOutlier(&d, u.Policy.GetOutlierDetection())
	if d.dynamic == nil {
		applyLocality(v, d.Cluster, u)
		applyLoadBalancer(&d, u.Policy.GetLoadBalancer())
	}
	d.secure(v, u)
	if !u.PassesTLS {
		d.announceClient(u.Policy.GetProxyProtocol())
	}
	return d.finish()
}

// discover sets where the endpoints come from, and reports whether there can be any.
func discover(v view.View, d *draft, u upstream.Upstream) bool {
	if upstream.IsDynamic(u.Service) {
		d.discoverPerRequest(dns.ServiceCache(v, u.Service))
		return v.Sidecar() || u.Reach != mesh.ReachNetwork // requests of anybody would name the host, which could be the router's own
	}
	kind := upstream.DiscoveryType(v, u)
	d.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: kind}
	switch kind {
	case clusterv3.Cluster_STRICT_DNS, clusterv3.Cluster_LOGICAL_DNS:
		return discoverByDNS(v, d, u)
	case clusterv3.Cluster_ORIGINAL_DST:
		if u.Service.ResolvedByDNS() && len(u.OfAll().Endpoints()) == 0 {
			return false // as in Istio: there is a service only where there are names
		}
		if u.Service.Resolution == mesh.ResolutionNone && u.Port.Target > 0 {
			d.LbConfig = &clusterv3.Cluster_OriginalDstLbConfig_{
				OriginalDstLbConfig: &clusterv3.Cluster_OriginalDstLbConfig{UpstreamPortOverride: message.U32(u.Port.Target)},
			}
		}
	default:
		d.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{ServiceName: d.Name, EdsConfig: message.OverADS()}
	}
	return true
}

// discoverByDNS puts the names into the cluster.
func discoverByDNS(v view.View, d *draft, u upstream.Upstream) bool {
	localities := endpoint.Of(v, u)
	if len(localities) == 0 {
		return false
	}
	d.LoadAssignment = &endpointv3.ClusterLoadAssignment{ClusterName: d.Name, Endpoints: localities}
	if d.GetType() == clusterv3.Cluster_LOGICAL_DNS && count(localities) != 1 {
		// Envoy refuses it: other ServiceEntries may add to the one name, gateways to other networks may stand for it, or none may be known.
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

// clusterMetadata tells telemetry which service, subset and rule a cluster stands for.
func clusterMetadata(u upstream.Upstream) *corev3.Metadata {
	fields := map[string]*structpb.Value{}
	if !upstream.IsDynamic(u.Service) {
		fields["services"] = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{message.ServiceMetadata(u.Service)}})
	}
	if u.Service.External && u.Subset == nil {
		fields["external"] = structpb.NewBoolValue(true)
	}
	if u.Rule != nil {
		fields["config"] = structpb.NewStringValue(message.PathOf(u.Rule.Resource))
	}
	if mode := u.Policy.GetTls().GetMode(); u.Rule != nil && transport.Originates(mode) {
		fields["alpn_override"] = structpb.NewStringValue("false")
	}
	if u.Subset != nil {
		fields["subset"] = structpb.NewStringValue(u.Subset.GetName())
	}
	return message.Metadata(fields)
}

// finish packs the HTTP options, which must name a protocol; HTTP/1.1 is what an HTTP cluster speaks otherwise.
func (d *draft) finish() *clusterv3.Cluster {
	if d.dynamic != nil {
		d.packDynamic()
	}
	if d.http == nil {
		return d.Cluster
	}
	if d.http.UpstreamProtocolOptions == nil {
		d.http.UpstreamProtocolOptions = explicitly(&upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{},
		})
	}
	d.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpOptionsKey: message.Pack(d.http)}
	return d.Cluster
}
