package translate

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// upstreamTLS is how connections to an upstream are secured.
type upstreamTLS struct {
	settings *networking.ClientTLSSettings // nil: not at all
	// automatic TLS was asked for by no rule: endpoints that take it get it.
	automatic bool
}

// tlsFor is what the rule says, completed with what the mesh knows of the service; without a word in the rule, mutual TLS with those
// endpoints that take it. A proxy that cannot prove who it is speaks plaintext, and so do clusters that pass TLS on as it came.
func tlsFor(v view.View, u upstream.Upstream) upstreamTLS {
	tls, identity := u.Policy.GetTls(), v.Proxy.Identity
	switch mode := tls.GetMode(); {
	case u.PassesTLS:
		return upstreamTLS{}
	case tls == nil && !takesMutualTLS(v, u):
		return upstreamTLS{}
	case tls == nil:
		return upstreamTLS{automatic: true, settings: mutualTLS(v, u, v.Mesh.Identities(u.Service), u.ServerName(), nil)}
	case mode == networking.ClientTLSSettings_DISABLE || mode == networking.ClientTLSSettings_SIMPLE:
		return upstreamTLS{settings: tls}
	case identity.FromFiles() && !u.Service.External:
		return upstreamTLS{settings: mutualTLS(v, u, tls.GetSubjectAltNames(), tls.GetSni(), tls.GetInsecureSkipVerify())}
	case mode == networking.ClientTLSSettings_ISTIO_MUTUAL:
		return upstreamTLS{settings: meshTLS(v, u, tls)}
	default:
		return upstreamTLS{settings: tls}
	}
}

// meshTLS completes a rule that asks for the mesh's own TLS.
func meshTLS(v view.View, u upstream.Upstream, tls *networking.ClientTLSSettings) *networking.ClientTLSSettings {
	names, server := tls.GetSubjectAltNames(), tls.GetSni()
	if names == nil {
		names = v.Mesh.Identities(u.Service)
	}
	if server == "" {
		server = u.ServerName()
	}
	return mutualTLS(v, u, names, server, tls.GetInsecureSkipVerify())
}

// mutualTLS shows the proxy's own certificate, wherever it has it from; it is nil for a proxy without any.
func mutualTLS(v view.View, u upstream.Upstream, names []string, server string, lenient *wrapperspb.BoolValue) *networking.ClientTLSSettings {
	identity := v.Proxy.Identity
	tls := &networking.ClientTLSSettings{SubjectAltNames: names, Sni: server, InsecureSkipVerify: lenient}
	switch {
	case identity.FromFiles() && !u.Service.External:
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
func takesMutualTLS(v view.View, u upstream.Upstream) bool {
	if u.Service.External || !v.Config.GetEnableAutoMtls().GetValue() {
		return false
	}
	if u.Service.Resolution == mesh.ResolutionNone || u.AsksForPassthrough() {
		if !everyEndpointTakesTLS(u.Service.OnPort(u.Port.Number)) {
			return false
		}
	}
	return v.Mesh.NamespaceMutualTLS(u.Service.Namespace) != mesh.PlaintextOnly
}

const tlsOfTheMesh = networking.ClientTLSSettings_ISTIO_MUTUAL

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
