package message

import corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

// GRPC is a service that Envoy calls by gRPC, at a cluster, for the name of a host; "" for that of the
// cluster.
func GRPC(cluster, host string) *corev3.GrpcService {
	return &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
		EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster, Authority: host},
	}}
}
