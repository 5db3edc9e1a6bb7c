package translate

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// Names of secrets that are fetched over SDS; they are Istio's.
const (
	ownCertificate = "default" // the proxy's own, with its key
	meshRoots      = "ROOTCA"  // whom the mesh trusts

	// agentCluster is the cluster of a proxy's bootstrap that leads to the agent beside it.
	agentCluster = "sds-grpc"

	credentialPrefix = "kubernetes://" //nolint:gosec // a name holds no secret
	rootsPrefix      = "configmap://"
	rootsSuffix      = "-cacert"
)

// agentSecret is a secret that the agent beside the proxy serves: the proxy's certificate and the mesh's roots, for which
// connections wait as long as it takes, and files, as file-cert:CERTIFICATE~KEY and file-root:ROOTS.
func agentSecret(name string) *tlsv3.SdsSecretConfig {
	config := &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
			ApiType:                   corev3.ApiConfigSource_GRPC,
			SetNodeOnFirstMessageOnly: true,
			TransportApiVersion:       corev3.ApiVersion_V3,
			GrpcServices: []*corev3.GrpcService{{
				TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: agentCluster}},
			}},
		}},
		ResourceApiVersion: corev3.ApiVersion_V3,
	}
	if name == ownCertificate || name == meshRoots {
		config.InitialFetchTimeout = noDuration
	}
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: config}
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
