package translate

import (
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/transport"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Endpoints returns the load assignment of every cluster that asks for one, also where it is empty: Envoy waits for it.
func Endpoints(m *mesh.Mesh, p *mesh.Proxy) []*endpointv3.ClusterLoadAssignment {
	s := ViewOf(m, p)
	var out []*endpointv3.ClusterLoadAssignment
	for _, b := range upstream.Backends(s.View) {
		out = append(out, s.Endpoints(b)...)
	}
	return out
}

// group is what serves an upstream in one locality, or the part of it that is preferred alike.
type group struct {
	locality string
	members  []member
	// weight is that of the whole among the localities; 0: none, since there is nobody.
	weight   uint32
	priority uint32
}

// member is one place where an upstream is served, or a gateway to several.
type member struct {
	address *corev3.Address
	labels  map[string]string
	network string
	weight  uint32
	health  corev3.HealthStatus
	tlsMode string // as its metadata says
	tag     string // as telemetry reads it
}

// localityEndpoints groups what serves an upstream by locality, in the order of their names, and prefers some as the rule says.
func localityEndpoints(v view.View, u upstream.Upstream) []*endpointv3.LocalityLbEndpoints {
	groups := throughGateways(v, groups(v, u), u)
	if u.PassesTLS {
		groups = takingMutualTLS(groups)
	}
	groups = prefer(v, groups, u)
	out := make([]*endpointv3.LocalityLbEndpoints, len(groups))
	for i, g := range groups {
		out[i] = g.endpoints()
	}
	return out
}

func groups(v view.View, u upstream.Upstream) []group {
	groups := map[string]*group{}
	for _, e := range u.Endpoints() {
		if !views(v, e) || e.Address == "" && !v.Mesh.HasNetworkGateways() {
			continue
		}
		g := groups[e.Locality]
		if g == nil {
			g = &group{locality: e.Locality}
			groups[e.Locality] = g
		}
		g.members = append(g.members, memberOf(v, u, e))
		g.weight = saturated(g.weight, e.Weight)
	}
	out := make([]group, 0, len(groups))
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, *groups[name])
	}
	return out
}

func memberOf(v view.View, u upstream.Upstream, e *mesh.Endpoint) member {
	m := member{
		address: message.SocketAddress(e.Address, e.Port), labels: e.Labels, network: v.Mesh.NetworkOf(e), weight: e.Weight, tag: workloadTag(e),
	}
	if e.Unix {
		m.address = message.PipeAddress(e.Address)
	}
	if e.Unhealthy {
		m.health = corev3.HealthStatus_UNHEALTHY
	}
	if e.TLSMode != mesh.TLSDisabled && usesMutualTLS(v, u, e) {
		m.tlsMode = e.TLSMode
	}
	return m
}

// usesMutualTLS is decided by the rule, or, where that says nothing, by what the endpoint takes.
func usesMutualTLS(v view.View, u upstream.Upstream, e *mesh.Endpoint) bool {
	if mode, said := upstream.TLSMode(u); said {
		return mode == networking.ClientTLSSettings_ISTIO_MUTUAL
	}
	return e.TLSMode == mesh.TLSMutual && v.Mesh.WorkloadMutualTLS(e.Namespace, e.Labels, e.Port) != mesh.PlaintextOnly
}

// endpoints is the group as Envoy takes it.
func (g group) endpoints() *endpointv3.LocalityLbEndpoints {
	out := &endpointv3.LocalityLbEndpoints{Locality: locality(g.locality), LoadBalancingWeight: message.Positive(g.weight), Priority: g.priority}
	for _, m := range g.members {
		out.LbEndpoints = append(out.LbEndpoints, m.endpoint())
	}
	return out
}

func (m member) endpoint() *endpointv3.LbEndpoint {
	metadata := message.Metadata(map[string]*structpb.Value{"workload": structpb.NewStringValue(m.tag)})
	if m.tlsMode != "" {
		metadata.FilterMetadata["envoy.transport_socket_match"] = transport.ModeMetadata(m.tlsMode)
	}
	return &endpointv3.LbEndpoint{
		HostIdentifier:      &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: m.address}},
		HealthStatus:        m.health,
		LoadBalancingWeight: message.U32(m.weight),
		Metadata:            metadata,
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
