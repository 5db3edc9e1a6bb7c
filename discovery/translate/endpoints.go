package translate

import (
	"maps"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// Endpoints returns the load assignment of every cluster that asks for one, also where it is empty: Envoy waits for it.
func Endpoints(m *mesh.Mesh, p *mesh.Proxy) []*endpointv3.ClusterLoadAssignment {
	v := newView(m, p)
	var out []*endpointv3.ClusterLoadAssignment
	for _, s := range v.scope.Services {
		out = append(out, v.serviceEndpoints(s)...)
	}
	return out
}

// ServiceEndpoints returns the load assignments of one service, for a proxy that sees it.
func ServiceEndpoints(m *mesh.Mesh, p *mesh.Proxy, s *mesh.Service) []*endpointv3.ClusterLoadAssignment {
	return newView(m, p).serviceEndpoints(s)
}

func (v view) serviceEndpoints(s *mesh.Service) []*endpointv3.ClusterLoadAssignment {
	var out []*endpointv3.ClusterLoadAssignment
	for _, u := range v.upstreams(s) {
		if v.discoveryType(u) == clusterv3.Cluster_EDS {
			out = append(out, &endpointv3.ClusterLoadAssignment{ClusterName: u.name(), Endpoints: localityEndpoints(u)})
		}
	}
	return out
}

// localityEndpoints groups what serves an upstream by locality, in the order of their names.
func localityEndpoints(u upstream) []*endpointv3.LocalityLbEndpoints {
	groups := map[string]*endpointv3.LocalityLbEndpoints{}
	for _, e := range u.endpoints() {
		group := groups[e.Locality]
		if group == nil {
			group = &endpointv3.LocalityLbEndpoints{Locality: locality(e.Locality), LoadBalancingWeight: u32(0)}
			groups[e.Locality] = group
		}
		group.LbEndpoints = append(group.LbEndpoints, lbEndpoint(e))
		group.LoadBalancingWeight.Value = saturated(group.GetLoadBalancingWeight().GetValue(), e.Weight)
	}
	out := make([]*endpointv3.LocalityLbEndpoints, 0, len(groups))
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, groups[name])
	}
	return out
}

// usable reports whether Envoy can take the endpoint: a name only where names are resolved, a socket's path only elsewhere.
func usable(s *mesh.Service, e *mesh.Endpoint) bool {
	if s.ResolvedByDNS() {
		return e.Address != "" && !e.Unix
	}
	return !e.Named()
}

func lbEndpoint(e *mesh.Endpoint) *endpointv3.LbEndpoint {
	address := socketAddress(e.Address, e.Port)
	if e.Unix {
		address = pipeAddress(e.Address)
	}
	return &endpointv3.LbEndpoint{
		HostIdentifier:      &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address}},
		LoadBalancingWeight: u32(e.Weight),
		Metadata:            istioMetadata(map[string]*structpb.Value{"workload": structpb.NewStringValue(workloadTag(e))}),
	}
}

// workloadTag is what Istio's telemetry reads: workload;namespace;canonical name;canonical revision;cluster.
func workloadTag(e *mesh.Endpoint) string {
	name := e.Labels[mesh.LabelCanonicalName]
	for _, label := range []string{"app.kubernetes.io/name", "app"} {
		if name == "" {
			name = e.Labels[label]
		}
	}
	if name == "" {
		name = e.Workload
	}
	revision := e.Labels[mesh.LabelCanonicalRevision]
	for _, label := range []string{"app.kubernetes.io/version", "version"} {
		if revision == "" {
			revision = e.Labels[label]
		}
	}
	if revision == "latest" {
		revision = ""
	}
	return strings.Join([]string{e.Workload, e.Namespace, name, revision, ""}, ";")
}

// locality reads region/zone/subzone; later parts may be missing.
func locality(s string) *corev3.Locality {
	parts := append(strings.SplitN(s, "/", 3), "", "")
	return &corev3.Locality{Region: parts[0], Zone: parts[1], SubZone: parts[2]}
}

func saturated(a, b uint32) uint32 {
	if a+b < a {
		return ^uint32(0)
	}
	return a + b
}
