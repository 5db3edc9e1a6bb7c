package transport

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/secret"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/identity/agentsecret"
)

// Server ends TLS as a server of a Gateway or a Sidecar describes it.
func Server(v view.View, settings *networking.ServerTLSSettings) *corev3.TransportSocket {
	context := &tlsv3.DownstreamTlsContext{
		CommonTlsContext:         &tlsv3.CommonTlsContext{AlpnProtocols: []string{"h2", "http/1.1"}},
		RequireClientCertificate: message.No,
	}
	if secret.RequiresClients(settings) {
		context.RequireClientCertificate = message.Yes
	}
	showCertificates(v, context.GetCommonTlsContext(), settings)
	checkClients(v, context.GetCommonTlsContext(), settings)
	if settings.GetMode() != networking.ServerTLSSettings_ISTIO_MUTUAL {
		context.CommonTlsContext.TlsParams = serverParameters(v, settings)
	}
	return TLS(context)
}

// showCertificates names the server's certificates: credentials of the mesh, files of the machine,
// or the proxy's own.
func showCertificates(v view.View, context *tlsv3.CommonTlsContext, settings *networking.ServerTLSSettings) {
	var out []*tlsv3.SdsSecretConfig
	for _, name := range secret.CredentialNames(settings) {
		out = append(out, secret.ServerCredential(v, name))
	}
	if len(out) == 0 {
		for _, pair := range secret.CertificateFiles(settings) {
			out = append(out, secret.FromDiscovery(secret.CertificateName(pair.GetServerCertificate(), pair.GetPrivateKey())))
		}
	}
	if len(out) == 0 {
		out = append(out, secret.FromAgent(agentsecret.Certificate))
	}
	context.TlsCertificateSdsSecretConfigs = out
}

// checkClients says by what the certificates of clients are checked, if they may show one.
// Otherwise it leaves out the names, too: Envoy refuses them without authorities.
func checkClients(v view.View, context *tlsv3.CommonTlsContext, settings *networking.ServerTLSSettings) {
	if !secret.ChecksClients(settings) {
		return
	}
	context.ValidationContextType = combined(clientRoots(v, settings), clientChecks(settings))
}

func clientChecks(settings *networking.ServerTLSSettings) *tlsv3.CertificateValidationContext {
	out := &tlsv3.CertificateValidationContext{
		MatchSubjectAltNames:  oneOf(settings.GetSubjectAltNames()), //nolint:staticcheck // Istio's shape, which EnvoyFilters patch
		VerifyCertificateSpki: settings.GetVerifyCertificateSpki(),
		VerifyCertificateHash: settings.GetVerifyCertificateHash(),
	}
	if settings.GetCaCrl() != "" {
		out.Crl = message.File(settings.GetCaCrl())
	}
	if settings.GetInsecureSkipVerify().GetValue() {
		out.TrustChainVerification = tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED
	}
	return out
}

// clientRoots are the authorities that vouch for clients: one set, even if the server has several
// certificates.
func clientRoots(v view.View, settings *networking.ServerTLSSettings) *tlsv3.SdsSecretConfig {
	names := secret.CredentialNames(settings)
	switch {
	case len(names) > 0 && settings.GetCaCertCredentialName() != "":
		return secret.ServerCredential(v, settings.GetCaCertCredentialName())
	case len(names) > 0:
		return secret.ServerCredentialRoots(v, names[0])
	case settings.GetCaCertificates() != "" && settings.GetMode() != networking.ServerTLSSettings_ISTIO_MUTUAL:
		return secret.FromDiscovery(secret.RootsName(settings.GetCaCertificates()))
	default:
		return secret.FromAgent(agentsecret.Roots)
	}
}

// serverParameters are the versions and ciphers of a server, or else of the mesh. Nil leaves them
// to Envoy.
func serverParameters(v view.View, settings *networking.ServerTLSSettings) *tlsv3.TlsParameters {
	defaults := v.Config.GetTlsDefaults()
	out := &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: tlsv3.TlsParameters_TlsProtocol(settings.GetMinProtocolVersion()),
		TlsMaximumProtocolVersion: tlsv3.TlsParameters_TlsProtocol(settings.GetMaxProtocolVersion()),
		CipherSuites:              knownCiphers(defaults.GetCipherSuites()),
		EcdhCurves:                knownCurves(defaults.GetEcdhCurves()),
	}
	if out.GetTlsMinimumProtocolVersion() == tlsv3.TlsParameters_TLS_AUTO {
		out.TlsMinimumProtocolVersion = meshMinimum[defaults.GetMinProtocolVersion()]
	}
	if curves := knownCurves(settings.GetEcdhCurves()); len(curves) > 0 {
		out.EcdhCurves = curves
	}
	if ciphers := knownCiphers(settings.GetCipherSuites()); len(ciphers) > 0 {
		out.CipherSuites = ciphers
	}
	if out.GetTlsMinimumProtocolVersion() == 0 && out.GetTlsMaximumProtocolVersion() == 0 && len(out.GetCipherSuites())+len(out.GetEcdhCurves()) == 0 {
		return nil
	}
	return out
}

var meshMinimum = map[meshconfig.MeshConfig_TLSConfig_TLSProtocol]tlsv3.TlsParameters_TlsProtocol{
	meshconfig.MeshConfig_TLSConfig_TLSV1_2: tlsv3.TlsParameters_TLSv1_2,
	meshconfig.MeshConfig_TLSConfig_TLSV1_3: tlsv3.TlsParameters_TLSv1_3,
}
