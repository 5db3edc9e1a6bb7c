package translate

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/pgmesh/pgmesh/internal/agentsecret"
)

// What the names of secrets begin and end with that are fetched over SDS; they are Istio's.
const (
	credentialPrefix = "kubernetes://" //nolint:gosec // a name holds no secret
	rootsPrefix      = "configmap://"
	rootsSuffix      = "-cacert"
)

// agentSecret is a secret that the agent beside the proxy serves: the proxy's certificate and the mesh's roots, for which connections wait as
// long as it takes, and files.
func agentSecret(name string) *tlsv3.SdsSecretConfig {
	if name == agentsecret.Certificate || name == agentsecret.Roots {
		return agentsecret.Awaited(name)
	}
	return agentsecret.Named(name)
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
	for _, prefix := range []string{credentialPrefix, ofGatewayAPI, rootsPrefix} {
		if strings.HasPrefix(name, prefix) {
			return name
		}
	}
	return credentialPrefix + name
}

// rootsOnly reports whether a credential is a set of roots, which hold no key.
func rootsOnly(name string) bool { return strings.HasPrefix(name, rootsPrefix) }
