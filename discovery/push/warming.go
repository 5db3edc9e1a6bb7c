package push

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rawbufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/pgmesh/pgmesh/identity/agentsecret"
)

// warms reports whether Envoy warms up a cluster with more than its endpoints. Then a route that
// leads to it must not be sent right behind the endpoints.
func warms(c *clusterv3.Cluster) bool {
	return len(c.GetHealthChecks()) > 0 || warmsSocket(c.GetTransportSocket()) ||
		slices.ContainsFunc(c.GetTransportSocketMatches(), func(m *clusterv3.Cluster_TransportSocketMatch) bool { return warmsSocket(m.GetTransportSocket()) })
}

// warmsSocket reports whether a transport socket may have to wait for a secret. What is not known
// here may.
func warmsSocket(s *corev3.TransportSocket) bool {
	if s == nil {
		return false
	}
	config, err := s.GetTypedConfig().UnmarshalNew()
	if err != nil {
		return true
	}
	switch config := config.(type) {
	case *rawbufferv3.RawBuffer:
		return false
	case *tlsv3.UpstreamTlsContext:
		return slices.ContainsFunc(secretsOf(config.GetCommonTlsContext()), isRemote)
	default:
		return true
	}
}

func secretsOf(tls *tlsv3.CommonTlsContext) []*tlsv3.SdsSecretConfig {
	return append(slices.Clone(tls.GetTlsCertificateSdsSecretConfigs()),
		tls.GetValidationContextSdsSecretConfig(), tls.GetCombinedValidationContext().GetValidationContextSdsSecretConfig())
}

// isRemote reports whether Envoy has to ask for a secret. It has those that prove who it is from
// its start.
func isRemote(secret *tlsv3.SdsSecretConfig) bool {
	return secret != nil && secret.GetName() != agentsecret.Certificate && secret.GetName() != agentsecret.Roots
}
