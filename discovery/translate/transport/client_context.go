package transport

import (
	"strings"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/secret"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/identity/agentsecret"
)

// ClientContext is the TLS of connections to an upstream, over which HTTP/2 is spoken or not. It is
// nil for plaintext.
func ClientContext(v view.View, u upstream.Upstream, tls *networking.ClientTLSSettings, http2 bool) *tlsv3.UpstreamTlsContext {
	switch {
	case tls.GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL:
		return meshContext(v, tls, http2)
	case Originates(tls.GetMode()) && mayUseCredential(v, tls, u):
		return originatedContext(v, u, tls, http2)
	default:
		return nil
	}
}

// mayUseCredential reports whether the proxy may show a rule's credential. That is for gateways,
// and for the workloads that the rule selects; without a selector every client of the service would
// be given it. Anybody may have roots.
func mayUseCredential(v view.View, tls *networking.ClientTLSSettings, u upstream.Upstream) bool {
	return tls.GetCredentialName() == "" || secret.HasNoKey(tls.GetCredentialName()) || !v.Sidecar() || upstream.SpecOf(u.Rule).GetWorkloadSelector() != nil
}

// Originates reports whether connections use the service's own TLS in place of the mesh's.
func Originates(mode networking.ClientTLSSettings_TLSmode) bool {
	return mode == networking.ClientTLSSettings_SIMPLE || mode == networking.ClientTLSSettings_MUTUAL
}

// clientVersions are those that a client of the mesh speaks.
func clientVersions() *tlsv3.TlsParameters {
	return &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3}
}

// meshContext proves who the proxy is by its own certificate, and trusts whom the mesh trusts.
func meshContext(v view.View, tls *networking.ClientTLSSettings, http2 bool) *tlsv3.UpstreamTlsContext {
	protocols := []string{"istio"}
	if http2 {
		protocols = []string{"istio", "h2"}
	}
	return &tlsv3.UpstreamTlsContext{
		Sni: tls.GetSni(),
		CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsParams:                      clientVersions(),
			AlpnProtocols:                  protocols,
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{secret.FromAgent(agentsecret.Certificate)},
			ValidationContextType: combined(secret.FromAgent(agentsecret.Roots), &tlsv3.CertificateValidationContext{
				MatchSubjectAltNames: oneOf(v.Mesh.Trusted(tls.GetSubjectAltNames())), //nolint:staticcheck // its successor tells the sorts of names apart, and a rule does not
			}),
		},
	}
}

// originatedContext is for services that know nothing of the mesh.
func originatedContext(v view.View, u upstream.Upstream, tls *networking.ClientTLSSettings, http2 bool) *tlsv3.UpstreamTlsContext {
	if tls.GetMode() == networking.ClientTLSSettings_MUTUAL && tls.GetCredentialName() == "" && (tls.GetClientCertificate() == "" || tls.GetPrivateKey() == "") {
		return nil // validation refuses it; there is nothing to show
	}
	common := &tlsv3.CommonTlsContext{TlsParams: clientVersions()}
	common.TlsParams.EcdhCurves = knownCurves(v.Config.GetTlsDefaults().GetEcdhCurves())
	common.TlsParams.CipherSuites = knownCiphers(v.Config.GetTlsDefaults().GetCipherSuites())
	if http2 {
		common.AlpnProtocols = []string{"h2"}
	}
	names := v.Mesh.Trusted(tls.GetSubjectAltNames())
	if len(names) == 0 {
		names = v.Mesh.Identities(u.Service)
	}
	if tls.GetCredentialName() != "" {
		showCredential(common, tls, names)
	} else {
		showFiles(v, common, tls, names)
	}
	if u.Shows != "" {
		showGateway(common, u.Shows)
	}
	return &tlsv3.UpstreamTlsContext{Sni: tls.GetSni(), CommonTlsContext: common}
}

// showGateway shows the certificate of a Gateway. Without it no connection comes about.
func showGateway(common *tlsv3.CommonTlsContext, credential string) {
	if secret.TrustsNobody(credential) {
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: nobody()}
		return
	}
	common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{secret.Credential(credential)}
}

// showCredential takes the certificate, and whom to trust, from a secret of the mesh.
func showCredential(common *tlsv3.CommonTlsContext, tls *networking.ClientTLSSettings, names []string) {
	if tls.GetMode() == networking.ClientTLSSettings_MUTUAL {
		common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{secret.Credential(tls.GetCredentialName())}
	}
	if secret.TrustsNobody(tls.GetCredentialName()) {
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: nobody()}
		return
	}
	if !tls.GetInsecureSkipVerify().GetValue() {
		common.ValidationContextType = combined(secret.CredentialRoots(tls.GetCredentialName()), checks(tls, names, false))
	}
}

// nobody accepts no server: there is no certificate with this hash.
func nobody() *tlsv3.CertificateValidationContext {
	return &tlsv3.CertificateValidationContext{VerifyCertificateHash: []string{strings.Repeat("0", 64)}}
}

// checks is what a server's certificate must say, whoever issued it.
func checks(tls *networking.ClientTLSSettings, names []string, crl bool) *tlsv3.CertificateValidationContext {
	out := &tlsv3.CertificateValidationContext{
		MatchSubjectAltNames: oneOf(names), //nolint:staticcheck // as above
	}
	if crl && tls.GetCaCrl() != "" {
		out.Crl = message.File(tls.GetCaCrl())
	}
	return out
}
