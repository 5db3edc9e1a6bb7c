package secret

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/identity/agentsecret"
	"github.com/pgmesh/pgmesh/kinds"
)

// What the names of secrets begin with; all are Istio's.
const (
	credentialPrefix = "kubernetes://" //nolint:gosec // a name holds no secret
	rootsPrefix      = "configmap://"
	externalPrefix   = "sds://"
)

// FromAgent asks the agent beside the proxy: for the proxy's own certificate and the mesh's roots,
// or for files. Connections wait for the former as long as it takes.
func FromAgent(name string) *tlsv3.SdsSecretConfig {
	if name == agentsecret.Certificate || name == agentsecret.Roots {
		return agentsecret.Awaited(name)
	}
	return agentsecret.Named(name)
}

// FromDiscovery asks on the stream that everything else comes by. Envoy waits only for a while: a
// name that stands for nothing must not hold up a whole listener.
func FromDiscovery(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}}
}

// Credential asks for a secret of the mesh, by the credentialName that a resource gives.
func Credential(name string) *tlsv3.SdsSecretConfig { return FromDiscovery(credentialResource(name)) }

// CredentialRoots asks for the authorities that go with a credential, to check the other side by.
func CredentialRoots(name string) *tlsv3.SdsSecretConfig {
	return Credential(name + kinds.AuthoritySuffix)
}

// ServerCredential asks for what a server of a Gateway or a Sidecar shows, or checks clients by. A
// name that begins with sds:// is asked of the service that the mesh names for that, without the
// prefix; if the mesh names none, it is a secret of the mesh.
func ServerCredential(v view.View, name string) *tlsv3.SdsSecretConfig {
	rest, external := strings.CutPrefix(name, externalPrefix)
	server := v.Mesh.SecretServer()
	if !external || server.Host == "" {
		return Credential(name)
	}
	return &tlsv3.SdsSecretConfig{Name: rest, SdsConfig: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
			ApiType: corev3.ApiConfigSource_GRPC, TransportApiVersion: corev3.ApiVersion_V3, SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{message.GRPC(naming.Cluster(server.Port, "", server.Host), server.Host)},
		}},
		ResourceApiVersion: corev3.ApiVersion_V3,
	}}
}

// ServerCredentialRoots asks for the authorities that go with a server's credential.
func ServerCredentialRoots(v view.View, name string) *tlsv3.SdsSecretConfig {
	return ServerCredential(v, name+kinds.AuthoritySuffix)
}

// credentialResource names a credential as proxies ask for it: kubernetes://NAME, unless its own
// prefix says of which sort it is.
func credentialResource(name string) string {
	name = strings.TrimPrefix(name, externalPrefix)
	for _, prefix := range []string{credentialPrefix, gatewayapi.CredentialPrefix, rootsPrefix, gatewayapi.AuthorityPrefix} {
		if strings.HasPrefix(name, prefix) {
			return name
		}
	}
	return credentialPrefix + name
}

// HasNoKey reports whether a credential is a set of roots. Those may be shown to anybody.
func HasNoKey(credential string) bool {
	return strings.HasPrefix(credential, rootsPrefix) || strings.HasPrefix(credential, gatewayapi.AuthorityPrefix) || TrustsNobody(credential)
}

// TrustsNobody reports whether a credential stands for authorities that cannot be had.
func TrustsNobody(credential string) bool { return credential == gatewayapi.NoAuthority }
