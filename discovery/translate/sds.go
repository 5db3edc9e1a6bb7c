package translate

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/identity/agentsecret"
)

// What the names of secrets begin and end with that are fetched over SDS; they are Istio's.
const (
	credentialPrefix = "kubernetes://" //nolint:gosec // a name holds no secret
	rootsPrefix      = "configmap://"
	rootsSuffix      = "-cacert"
	externalPrefix   = "sds://"
)

// agentSecret is a secret that the agent beside the proxy serves: the proxy's certificate and the mesh's roots, for which connections wait as
// long as it takes, and files.
func agentSecret(name string) *tlsv3.SdsSecretConfig {
	if name == agentsecret.Certificate || name == agentsecret.Roots {
		return agentsecret.Awaited(name)
	}
	return agentsecret.Named(name)
}

// serverCredential is what a server of a Gateway or a Sidecar shows, or checks clients by. What begins with sds:// comes from the service
// that the mesh names for that, under the rest of its name; where it names none, it is a secret of the mesh.
func serverCredential(v view.View, name string) *tlsv3.SdsSecretConfig {
	rest, external := strings.CutPrefix(name, externalPrefix)
	server := v.Mesh.SecretServer()
	if !external || server.Host == "" {
		return credential(name)
	}
	return &tlsv3.SdsSecretConfig{Name: rest, SdsConfig: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
			ApiType: corev3.ApiConfigSource_GRPC, TransportApiVersion: corev3.ApiVersion_V3, SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
				ClusterName: naming.Cluster(server.Port, "", server.Host), Authority: server.Host,
			}}}},
		}},
		ResourceApiVersion: corev3.ApiVersion_V3,
	}}
}

// credential is a secret of the mesh, by the credentialName that a resource gives. It comes on the stream that everything else
// comes by. Envoy waits for it for a while only: a name that stands for nothing must not hold up a whole listener.
func credential(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: credentialResource(name), SdsConfig: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}}
}

// credentialRoots are the certificates that go with a credential, to check the other side by.
func credentialRoots(name string) *tlsv3.SdsSecretConfig { return credential(name + rootsSuffix) }

// credentialResource names a credential as proxies ask for it: kubernetes://NAME, unless it says of which sort it is.
func credentialResource(name string) string {
	name = strings.TrimPrefix(name, externalPrefix)
	for _, prefix := range []string{credentialPrefix, ofGatewayAPI, rootsPrefix} {
		if strings.HasPrefix(name, prefix) {
			return name
		}
	}
	return credentialPrefix + name
}

// rootsOnly reports whether a credential is a set of roots, which hold no key.
func rootsOnly(name string) bool { return strings.HasPrefix(name, rootsPrefix) }
