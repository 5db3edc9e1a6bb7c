package translate

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rawbufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// upstreamTLS is how connections to an upstream are secured.
type upstreamTLS struct {
	settings *networking.ClientTLSSettings // nil: not at all
	// automatic TLS was asked for by no rule: endpoints that take it get it.
	automatic bool
}

// tlsFor is what the rule says, completed with what the mesh knows of the service; without a word in the rule, mutual TLS with those
// endpoints that take it. A proxy that cannot prove who it is speaks plaintext, and so do clusters that pass TLS on as it came.
func (v view) tlsFor(u upstream) upstreamTLS {
	tls, identity := u.policy.GetTls(), v.proxy.Identity
	switch mode := tls.GetMode(); {
	case u.passesTLS:
		return upstreamTLS{}
	case tls == nil && !v.takesMutualTLS(u):
		return upstreamTLS{}
	case tls == nil:
		return upstreamTLS{automatic: true, settings: v.mutualTLS(u, v.mesh.Identities(u.service), u.serverName(), nil)}
	case mode == networking.ClientTLSSettings_DISABLE || mode == networking.ClientTLSSettings_SIMPLE:
		return upstreamTLS{settings: tls}
	case identity.FromFiles() && !u.service.External:
		return upstreamTLS{settings: v.mutualTLS(u, tls.GetSubjectAltNames(), tls.GetSni(), tls.GetInsecureSkipVerify())}
	case mode == networking.ClientTLSSettings_ISTIO_MUTUAL:
		return upstreamTLS{settings: v.asked(u, tls)}
	default:
		return upstreamTLS{settings: tls}
	}
}

// asked completes a rule that asks for the mesh's own TLS.
func (v view) asked(u upstream, tls *networking.ClientTLSSettings) *networking.ClientTLSSettings {
	names, server := tls.GetSubjectAltNames(), tls.GetSni()
	if names == nil {
		names = v.mesh.Identities(u.service)
	}
	if server == "" {
		server = u.serverName()
	}
	return v.mutualTLS(u, names, server, tls.GetInsecureSkipVerify())
}

// mutualTLS shows the proxy's own certificate, wherever it has it from; it is nil for a proxy without any.
func (v view) mutualTLS(u upstream, names []string, server string, lenient *wrapperspb.BoolValue) *networking.ClientTLSSettings {
	identity := v.proxy.Identity
	tls := &networking.ClientTLSSettings{SubjectAltNames: names, Sni: server, InsecureSkipVerify: lenient}
	switch {
	case identity.FromFiles() && !u.service.External:
		tls.Mode = networking.ClientTLSSettings_MUTUAL
		tls.ClientCertificate, tls.PrivateKey, tls.CaCertificates = identity.CertificateFile, identity.KeyFile, identity.RootsFile
	case identity.FromAgent:
		tls.Mode = networking.ClientTLSSettings_ISTIO_MUTUAL
	default:
		return nil
	}
	return tls
}

// takesMutualTLS reports whether some endpoint of an upstream may take mutual TLS: within the mesh, where no PeerAuthentication of
// the service's namespace says otherwise. Where the client says which endpoint it wants, all must take it.
func (v view) takesMutualTLS(u upstream) bool {
	if u.service.External || !v.config.GetEnableAutoMtls().GetValue() {
		return false
	}
	if u.service.Resolution == mesh.ResolutionNone || u.asksForPassthrough() {
		if !everyEndpointTakesTLS(u.service.OnPort(u.port.Number)) {
			return false
		}
	}
	return v.mesh.NamespaceMutualTLS(u.service.Namespace) != mesh.PlaintextOnly
}

const tlsOfTheMesh = networking.ClientTLSSettings_ISTIO_MUTUAL

// ruleTLSMode is what a rule says of TLS to an upstream's endpoints: the subset before the service, and the port before all ports.
func ruleTLSMode(u upstream) (networking.ClientTLSSettings_TLSmode, bool) {
	policies := []*networking.TrafficPolicy{u.subset.GetTrafficPolicy(), specOf(u.rule).GetTrafficPolicy()}
	for _, policy := range policies {
		if tls := orElse(portSettings(policy, u.port).GetTls(), policy.GetTls()); tls != nil {
			return tls.GetMode(), true
		}
	}
	return networking.ClientTLSSettings_DISABLE, false
}

// asksForPassthrough looks at the subset's own words, or at those for the whole service.
func (u upstream) asksForPassthrough() bool {
	policy := specOf(u.rule).GetTrafficPolicy()
	if u.subset != nil {
		policy = u.subset.GetTrafficPolicy()
	}
	return isPassthrough(policy)
}

func everyEndpointTakesTLS(endpoints []*mesh.Endpoint) bool {
	for _, e := range endpoints {
		if e.TLSMode == mesh.TLSDisabled {
			return false
		}
	}
	return len(endpoints) > 0
}

// whereTaken uses TLS with endpoints whose metadata says that they take it, and plaintext with the others.
func whereTaken(tls *corev3.TransportSocket) []*clusterv3.Cluster_TransportSocketMatch {
	return []*clusterv3.Cluster_TransportSocketMatch{
		{Name: "tlsMode-" + mesh.TLSMutual, Match: tlsModeMetadata(mesh.TLSMutual), TransportSocket: tls},
		{Name: "tlsMode-" + mesh.TLSDisabled, Match: &structpb.Struct{}, TransportSocket: plaintextSocket()},
	}
}

// tlsModeMetadata is what an endpoint's metadata says under envoy.transport_socket_match.
func tlsModeMetadata(mode string) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{"tlsMode": structpb.NewStringValue(mode)}}
}

func plaintextSocket() *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.raw_buffer",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: pack(&rawbufferv3.RawBuffer{})},
	}
}
