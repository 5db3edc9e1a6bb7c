package transport

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Client is how connections to an upstream are secured.
type Client struct {
	Settings *networking.ClientTLSSettings // nil for plaintext
	// Automatic TLS is asked for by no rule: only endpoints that take it get it.
	Automatic bool
}

// ClientOf completes what the rule says with what the mesh knows of the service. If the rule says
// nothing, endpoints that take mutual TLS get it. A proxy that cannot prove who it is speaks
// plaintext, and so do clusters that pass TLS on as it came.
func ClientOf(v view.View, u upstream.Upstream) Client {
	tls, identity := u.Policy.GetTls(), v.Proxy.Identity
	switch mode := tls.GetMode(); {
	case u.PassesTLS:
		return Client{}
	case tls == nil && !takesMutualTLS(v, u):
		return Client{}
	case tls == nil:
		return Client{Automatic: true, Settings: mutualTLS(v, u, v.Mesh.Identities(u.Service), u.ServerName(), nil)}
	case mode == networking.ClientTLSSettings_DISABLE || mode == networking.ClientTLSSettings_SIMPLE:
		return Client{Settings: tls}
	case identity.FromFiles() && !u.Service.External:
		return Client{Settings: mutualTLS(v, u, tls.GetSubjectAltNames(), tls.GetSni(), tls.GetInsecureSkipVerify())}
	case mode == networking.ClientTLSSettings_ISTIO_MUTUAL:
		return Client{Settings: meshTLS(v, u, tls)}
	default:
		return Client{Settings: tls}
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

// mutualTLS shows the proxy's own certificate, be it from files or from the agent. It is nil for a
// proxy that has none.
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

// takesMutualTLS reports whether some endpoint of an upstream may take mutual TLS: those of the
// mesh may, unless a PeerAuthentication of the service's namespace says otherwise. If the client
// chooses the endpoint, all must take it.
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

func everyEndpointTakesTLS(endpoints []*mesh.Endpoint) bool {
	refuses := func(e *mesh.Endpoint) bool { return e.TLSMode == mesh.TLSDisabled }
	return len(endpoints) > 0 && !slices.ContainsFunc(endpoints, refuses)
}

// WhereTaken uses TLS with endpoints whose metadata says that they take it, and plaintext with the
// others.
func WhereTaken(tls *corev3.TransportSocket) []*clusterv3.Cluster_TransportSocketMatch {
	return []*clusterv3.Cluster_TransportSocketMatch{
		{Name: "tlsMode-" + mesh.TLSMutual, Match: ModeMetadata(mesh.TLSMutual), TransportSocket: tls},
		{Name: "tlsMode-" + mesh.TLSDisabled, Match: &structpb.Struct{}, TransportSocket: plaintext()},
	}
}

// ModeMetadata is what an endpoint's metadata has under envoy.transport_socket_match: it chooses
// among the sockets of WhereTaken.
func ModeMetadata(mode string) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{"tlsMode": structpb.NewStringValue(mode)}}
}
