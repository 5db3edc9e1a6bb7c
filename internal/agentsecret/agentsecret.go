// Package agentsecret is what discovery, mesh-agent and the bootstrap that it writes have to agree on: how Envoy asks the agent beside it for
// secrets. Where two of them say it in the same words, Envoy asks once.
package agentsecret

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Cluster is the one of a proxy's bootstrap that leads to the agent, by Istio's name.
const Cluster = "sds-grpc"

// Names of secrets. The first two are Istio's.
const (
	Certificate = "default" // the machine's own, with its key
	Roots       = "ROOTCA"  // whom the mesh trusts
)

// Named is a secret that Envoy waits for as it does for others: a file, as file-cert:CERTIFICATE~KEY and file-root:ROOTS.
func Named(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
			ApiType:                   corev3.ApiConfigSource_GRPC,
			SetNodeOnFirstMessageOnly: true,
			TransportApiVersion:       corev3.ApiVersion_V3,
			GrpcServices: []*corev3.GrpcService{{
				TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: Cluster}},
			}},
		}},
		ResourceApiVersion: corev3.ApiVersion_V3,
	}}
}

// Awaited is a secret without which connections wait for as long as it takes.
func Awaited(name string) *tlsv3.SdsSecretConfig {
	secret := Named(name)
	secret.GetSdsConfig().InitialFetchTimeout = durationpb.New(0)
	return secret
}
