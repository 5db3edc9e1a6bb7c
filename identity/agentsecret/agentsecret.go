// Package agentsecret defines how Envoy asks the agent beside it for secrets. Discovery, mesh-agent
// and the bootstrap that mesh-agent writes share it: where their configurations are equal, Envoy
// asks only once.
package agentsecret

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Cluster is the bootstrap's cluster for the agent. The name is Istio's.
const Cluster = "sds-grpc"

// Names of secrets. They are Istio's.
const (
	Certificate = "default" // the machine's certificate and key
	Roots       = "ROOTCA"  // the roots that the mesh trusts
)

// Named configures a secret with Envoy's default fetch timeout. The agent also serves files, named
// file-cert:CERTIFICATE~KEY and file-root:ROOTS.
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

// Awaited configures a secret without a fetch timeout: connections wait until it arrives.
func Awaited(name string) *tlsv3.SdsSecretConfig {
	secret := Named(name)
	secret.GetSdsConfig().InitialFetchTimeout = durationpb.New(0)
	return secret
}
