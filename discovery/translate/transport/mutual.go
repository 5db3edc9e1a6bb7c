package transport

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/secret"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// strongCiphers are what workloads take unless the mesh names ciphers.
var strongCiphers = []string{
	"ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256",
	"ECDHE-RSA-AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-GCM-SHA256",
}

// MutualServer accepts connections of other workloads of the mesh: they show a certificate of one
// of the mesh's trust domains.
func MutualServer(v view.View) *corev3.TransportSocket {
	context := &tlsv3.DownstreamTlsContext{
		CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsParams: &tlsv3.TlsParameters{
				TlsMinimumProtocolVersion: leastTLS(v.Config.GetMeshMTLS()),
				TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
				CipherSuites:              meshCiphers(v),
			},
			AlpnProtocols: []string{"h2", "http/1.1"},
		},
		RequireClientCertificate: message.Yes,
	}
	identify(v, context.GetCommonTlsContext(), trustDomains(v))
	return TLS(context)
}

func meshCiphers(v view.View) []string {
	if ciphers := knownCiphers(v.Config.GetMeshMTLS().GetCipherSuites()); len(ciphers) > 0 {
		return ciphers
	}
	return strongCiphers
}

// identify shows the workload's own certificate, and checks that of the other side by the mesh's
// roots and the names.
func identify(v view.View, context *tlsv3.CommonTlsContext, names []*matcherv3.StringMatcher) {
	certificate, roots := secret.Own(v)
	context.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{certificate}
	context.ValidationContextType = combined(roots, &tlsv3.CertificateValidationContext{
		MatchSubjectAltNames: names, //nolint:staticcheck // Istio's shape, which EnvoyFilters patch
	})
}

func leastTLS(settings *meshconfig.MeshConfig_TLSConfig) tlsv3.TlsParameters_TlsProtocol {
	if settings.GetMinProtocolVersion() == meshconfig.MeshConfig_TLSConfig_TLSV1_3 {
		return tlsv3.TlsParameters_TLSv1_3
	}
	return tlsv3.TlsParameters_TLSv1_2
}

// trustDomains match the identities that are let in: of the mesh, and of the meshes that it is
// federated with.
func trustDomains(v view.View) []*matcherv3.StringMatcher {
	names := append([]string{v.Config.GetTrustDomain()}, v.Config.GetTrustDomainAliases()...)
	for _, authority := range v.Config.GetCaCertificates() {
		names = append(names, authority.GetTrustDomains()...)
	}
	names = append(names, v.Mesh.Trust().Federated...)
	var out []*matcherv3.StringMatcher
	for i, name := range names {
		if name != "" && !slices.Contains(names[:i], name) {
			out = append(out, message.BeginningWith("spiffe://"+name+"/"))
		}
	}
	return out
}
