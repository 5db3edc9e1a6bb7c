package translate

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	dynamicforwardproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dynamic_forward_proxy/v3"
	upstreamhttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// Clusters returns every cluster of a proxy: one for each port of each service and subset that it may see, the fixed
// ones, and those of the ports that its own workload serves.
func Clusters(m *mesh.Mesh, p *mesh.Proxy) []*clusterv3.Cluster {
	s := ViewOf(m, p)
	var out []*clusterv3.Cluster
	for _, b := range s.backends() {
		out = append(out, s.Clusters(b)...)
	}
	return append(out, s.OwnClusters()...)
}

func (v view) clustersOf(upstreams []upstream) []*clusterv3.Cluster {
	var out []*clusterv3.Cluster
	for _, u := range upstreams {
		if c := v.cluster(u); c != nil {
			out = append(out, c)
		}
	}
	return out
}

// upstreams lists what has a cluster of its own: each port of a service, and of each of its subsets.
func (v view) upstreams(b Backend) []upstream {
	s, rule := b.Service, b.Rule
	var out []upstream
	for _, port := range s.Ports {
		if port.Protocol == mesh.ProtocolUDP || isDynamic(s) && !dynamicProtocol(port.Protocol) {
			continue
		}
		base := v.meshDefaults(portPolicy(specOf(rule).GetTrafficPolicy(), port))
		out = append(out, upstream{service: s, port: port, rule: rule, policy: base, reach: b.Reach})
		if isDynamic(s) {
			continue // there are no endpoints to be told apart
		}
		for _, subset := range specOf(rule).GetSubsets() {
			policy := subsetPolicy(base, subset.GetTrafficPolicy(), port)
			out = append(out, upstream{service: s, port: port, rule: rule, subset: subset, policy: policy, reach: b.Reach})
		}
	}
	return out
}

// specOf is the spec of a rule, or nil.
func specOf(rule *mesh.DestinationRule) *networking.DestinationRule {
	if rule == nil {
		return nil
	}
	return rule.Spec
}

// upstream is one port of a service, or of a subset of it, with the traffic policy that applies there.
type upstream struct {
	service *mesh.Service
	port    *mesh.Port
	rule    *mesh.DestinationRule
	subset  *networking.Subset
	policy  *networking.TrafficPolicy
	reach   mesh.Reach
	// passesTLS tells that connections come as mutual TLS for an endpoint, by their server name, and go on as they are.
	passesTLS bool
}

func (u upstream) name() string {
	if u.passesTLS {
		return ServerName(u.port.Number, u.subset.GetName(), u.service.Hostname)
	}
	return ClusterName(u.port.Number, u.subset.GetName(), u.service.Hostname)
}

// serverName is what clients ask for in the mesh's own TLS, so that a gateway can tell what they want. Where the host is found per
// request, each request names its own.
func (u upstream) serverName() string {
	if isDynamic(u.service) {
		return ""
	}
	return ServerName(u.port.Number, u.subset.GetName(), u.service.Hostname)
}

// endpoints are those that Envoy can take. Where it tries all addresses of a single name it refuses more names: the first counts.
func (u upstream) endpoints() []*mesh.Endpoint {
	unusable := func(e *mesh.Endpoint) bool { return e.Revoked || !usable(u.service, e) || u.reach.Excludes(e) }
	out := slices.DeleteFunc(u.service.Of(u.port, u.subset.GetLabels()), unusable)
	if u.service.RacesConnections() && len(out) > 1 {
		return out[:1]
	}
	return out
}

// ofAll is the upstream of which this is a subset, or it is itself.
func (u upstream) ofAll() upstream {
	u.subset = nil
	return u
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
func (v view) cluster(u upstream) *clusterv3.Cluster {
	d := draft{Cluster: &clusterv3.Cluster{
		Name:           u.name(),
		AltStatName:    statName(v.outboundStat(u)),
		CommonLbConfig: &clusterv3.Cluster_CommonLbConfig{},
		Metadata:       clusterMetadata(u),
	}}
	if !v.discover(&d, u) {
		return nil
	}
	d.speak(u.port.Protocol, v.sidecar())
	if upgradesToHTTP2(u.policy.GetConnectionPool(), u.port, v.config) {
		d.useHTTP2()
	}
	v.applyPool(&d, u.policy.GetConnectionPool())
	limitRetries(d.Cluster, u.policy.GetRetryBudget())
	applyOutlier(&d, u.policy.GetOutlierDetection())
	if d.dynamic == nil {
		v.applyLocality(d.Cluster, u)
		applyLoadBalancer(&d, u.policy.GetLoadBalancer())
	}
	v.secure(&d, u)
	if !u.passesTLS {
		announceClient(&d, u.policy.GetProxyProtocol())
	}
	return d.finish()
}

// discover sets where the endpoints come from, and reports whether there can be any.
func (v view) discover(d *draft, u upstream) bool {
	if isDynamic(u.service) {
		d.discoverPerRequest(v.dnsCache(u.service))
		return v.sidecar() || u.reach != mesh.ReachNetwork // requests of anybody would name the host, which could be the router's own
	}
	kind := v.discoveryType(u)
	d.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: kind}
	switch kind {
	case clusterv3.Cluster_STRICT_DNS, clusterv3.Cluster_LOGICAL_DNS:
		return v.discoverByDNS(d, u)
	case clusterv3.Cluster_ORIGINAL_DST:
		if u.service.ResolvedByDNS() && len(u.ofAll().endpoints()) == 0 {
			return false // as in Istio: there is a service only where there are names
		}
		if u.service.Resolution == mesh.ResolutionNone && u.port.Target > 0 {
			d.LbConfig = &clusterv3.Cluster_OriginalDstLbConfig_{
				OriginalDstLbConfig: &clusterv3.Cluster_OriginalDstLbConfig{UpstreamPortOverride: u32(u.port.Target)},
			}
		}
	default:
		d.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{ServiceName: d.Name, EdsConfig: overADS()}
	}
	return true
}

// discoverByDNS puts the names into the cluster.
func (v view) discoverByDNS(d *draft, u upstream) bool {
	localities := v.localityEndpoints(u)
	if len(localities) == 0 {
		return false
	}
	d.LoadAssignment = &endpointv3.ClusterLoadAssignment{ClusterName: d.Name, Endpoints: localities}
	if d.GetType() == clusterv3.Cluster_LOGICAL_DNS && count(localities) != 1 {
		// Envoy refuses it: other ServiceEntries may add to the one name, gateways to other networks may stand for it, or none may be known.
		d.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS}
	}
	v.resolve(d.Cluster)
	if u.service.RacesConnections() {
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

func (v view) discoveryType(u upstream) clusterv3.Cluster_DiscoveryType {
	if u.passesThrough() {
		return clusterv3.Cluster_ORIGINAL_DST
	}
	switch u.service.Resolution {
	case mesh.ResolutionDNS:
		if u.service.RacesConnections() {
			return clusterv3.Cluster_LOGICAL_DNS
		}
		return clusterv3.Cluster_STRICT_DNS
	case mesh.ResolutionDNSRR:
		return clusterv3.Cluster_LOGICAL_DNS
	case mesh.ResolutionNone:
		if v.sidecar() {
			return clusterv3.Cluster_ORIGINAL_DST
		}
		return clusterv3.Cluster_EDS
	default:
		return clusterv3.Cluster_EDS
	}
}

// passesThrough reports whether connections go where the client sent them since a rule says so. What is said for the whole port holds for
// its subsets too, whatever they say of load balancing; what a subset says for all of its ports, for each.
func (u upstream) passesThrough() bool {
	port := portPolicy(specOf(u.rule).GetTrafficPolicy(), u.port)
	return isPassthrough(port) || isPassthrough(u.subset.GetTrafficPolicy()) || isPassthrough(u.policy)
}

func isPassthrough(policy *networking.TrafficPolicy) bool {
	return policy.GetLoadBalancer().GetSimple() == networking.LoadBalancerSettings_PASSTHROUGH
}

// clusterMetadata tells telemetry which service, subset and rule a cluster stands for.
func clusterMetadata(u upstream) *corev3.Metadata {
	fields := map[string]*structpb.Value{}
	if !isDynamic(u.service) {
		fields["services"] = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{serviceMetadata(u.service)}})
	}
	if u.service.External && u.subset == nil {
		fields["external"] = structpb.NewBoolValue(true)
	}
	if u.rule != nil {
		fields["config"] = structpb.NewStringValue(resourcePath(u.rule.Resource))
	}
	if mode := u.policy.GetTls().GetMode(); u.rule != nil && originates(mode) {
		fields["alpn_override"] = structpb.NewStringValue("false")
	}
	if u.subset != nil {
		fields["subset"] = structpb.NewStringValue(u.subset.GetName())
	}
	return istioMetadata(fields)
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
	d.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpOptionsKey: pack(d.http)}
	return d.Cluster
}
