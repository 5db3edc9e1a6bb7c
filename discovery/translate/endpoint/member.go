package endpoint

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/transport"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

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

func memberOf(v view.View, u upstream.Upstream, e *mesh.Endpoint) member {
	m := member{
		address: message.SocketAddress(e.Address, e.Port), labels: e.Labels, network: v.Mesh.NetworkOf(e), weight: e.Weight, tag: workloadTag(e),
	}
	switch {
	case e.Unix:
		m.address = message.PipeAddress(e.Address)
	case u.Datagrams:
		m.address = message.DatagramAddress(e.Address, e.Port)
	}
	if e.Unhealthy {
		m.health = corev3.HealthStatus_UNHEALTHY
	}
	if !u.Datagrams && e.TLSMode != mesh.TLSDisabled && usesMutualTLS(v, u, e) {
		m.tlsMode = e.TLSMode
	}
	return m
}

// usesMutualTLS reports what the rule says. If it says nothing, the endpoint decides by what it
// takes.
func usesMutualTLS(v view.View, u upstream.Upstream, e *mesh.Endpoint) bool {
	if mode, said := upstream.TLSMode(u); said {
		return mode == networking.ClientTLSSettings_ISTIO_MUTUAL
	}
	return e.TLSMode == mesh.TLSMutual && v.Mesh.WorkloadMutualTLS(e.Namespace, e.Labels, e.Port) != mesh.PlaintextOnly
}

func (m member) endpoint() *endpointv3.LbEndpoint {
	metadata := message.Metadata(map[string]*structpb.Value{"workload": structpb.NewStringValue(m.tag)})
	if m.tlsMode != "" {
		metadata.FilterMetadata["envoy.transport_socket_match"] = transport.ModeMetadata(m.tlsMode)
	}
	return &endpointv3.LbEndpoint{
		HostIdentifier:      &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: m.address}},
		HealthStatus:        m.health,
		LoadBalancingWeight: wrapperspb.UInt32(m.weight),
		Metadata:            metadata,
	}
}

// workloadTag is what Istio's telemetry reads: workload;namespace;canonical name;canonical
// revision;cluster.
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
