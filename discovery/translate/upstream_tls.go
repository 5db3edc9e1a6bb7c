package translate

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/secret"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/identity/agentsecret"
)

// secure makes a cluster's connections TLS where a rule, or the mesh, asks for it.
func secure(v view.View, d *draft, u upstream.Upstream) {
	tls := tlsFor(v, u)
	context := tlsContext(v, d, u, tls.settings)
	if context == nil {
		return
	}
	socket := tlsSocket(context)
	if tls.automatic && !d.passesThrough() {
		d.TransportSocketMatches = whereTaken(socket)
		return
	}
	d.TransportSocket = socket
}

// tlsContext is nil for plaintext.
func tlsContext(v view.View, d *draft, u upstream.Upstream, tls *networking.ClientTLSSettings) *tlsv3.UpstreamTlsContext {
	switch {
	case tls.GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL:
		return meshTLSContext(v, d, tls)
	case originates(tls.GetMode()) && mayUseCredential(v, tls, u):
		return originatedTLSContext(v, d, u, tls)
	default:
		return nil
	}
}

// mayUseCredential is false for a credential that a rule would hand to every client of a service: it is for the gateways and the
// workloads that the rule selects. Nothing keeps roots alone from anyone.
func mayUseCredential(v view.View, tls *networking.ClientTLSSettings, u upstream.Upstream) bool {
	return tls.GetCredentialName() == "" || secret.HasNoKey(tls.GetCredentialName()) || !v.Sidecar() || upstream.SpecOf(u.Rule).GetWorkloadSelector() != nil
}

// originates reports whether connections leave the mesh's own TLS aside for that of the service.
func originates(mode networking.ClientTLSSettings_TLSmode) bool {
	return mode == networking.ClientTLSSettings_SIMPLE || mode == networking.ClientTLSSettings_MUTUAL
}

// tlsVersions are those that a client of the mesh speaks.
func tlsVersions() *tlsv3.TlsParameters {
	return &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3}
}

// meshTLSContext proves who the proxy is by its own certificate, and trusts whom the mesh trusts.
func meshTLSContext(v view.View, d *draft, tls *networking.ClientTLSSettings) *tlsv3.UpstreamTlsContext {
	if d.dynamic != nil {
		d.nameServer(tls)
	}
	protocols := []string{"istio"}
	if d.isHTTP2() {
		protocols = []string{"istio", "h2"}
	}
	return &tlsv3.UpstreamTlsContext{
		Sni: tls.GetSni(),
		CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsParams:                      tlsVersions(),
			AlpnProtocols:                  protocols,
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{secret.FromAgent(agentsecret.Certificate)},
			ValidationContextType: combined(secret.FromAgent(agentsecret.Roots), &tlsv3.CertificateValidationContext{
				MatchSubjectAltNames: oneOf(v.Mesh.Trusted(tls.GetSubjectAltNames())), //nolint:staticcheck // its successor tells the sorts of names apart, and a rule does not
			}),
		},
	}
}

// originatedTLSContext is for services that know nothing of the mesh.
func originatedTLSContext(v view.View, d *draft, u upstream.Upstream, tls *networking.ClientTLSSettings) *tlsv3.UpstreamTlsContext {
	if tls.GetMode() == networking.ClientTLSSettings_MUTUAL && tls.GetCredentialName() == "" && (tls.GetClientCertificate() == "" || tls.GetPrivateKey() == "") {
		return nil // validation refuses it; there is nothing to show
	}
	d.nameServer(tls)
	common := &tlsv3.CommonTlsContext{TlsParams: tlsVersions()}
	common.TlsParams.EcdhCurves = knownCurves(v.Config.GetTlsDefaults().GetEcdhCurves())
	common.TlsParams.CipherSuites = knownCiphers(v.Config.GetTlsDefaults().GetCipherSuites())
	if d.isHTTP2() {
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
	return &tlsv3.UpstreamTlsContext{Sni: tls.GetSni(), CommonTlsContext: common}
}

// nameServer asks for, and expects, the host that each request names, where the rule names none.
func (d *draft) nameServer(tls *networking.ClientTLSSettings) {
	named, lenient := tls.GetSni() != "", tls.GetInsecureSkipVerify().GetValue()
	verified := !lenient && (d.dynamic != nil || !named && len(tls.GetSubjectAltNames()) == 0)
	if d.dynamic != nil {
		d.dynamic.AllowInsecureClusterOptions = named || !verified
	}
	if named && !verified {
		return
	}
	o := d.options()
	if o.GetUpstreamHttpProtocolOptions() == nil {
		o.UpstreamHttpProtocolOptions = &corev3.UpstreamHttpProtocolOptions{}
	}
	o.UpstreamHttpProtocolOptions.AutoSni = !named
	o.UpstreamHttpProtocolOptions.AutoSanValidation = verified
}

// showCredential takes the certificate, and whom to trust, from a secret of the mesh.
func showCredential(common *tlsv3.CommonTlsContext, tls *networking.ClientTLSSettings, names []string) {
	if tls.GetMode() == networking.ClientTLSSettings_MUTUAL {
		common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{secret.Credential(tls.GetCredentialName())}
	}
	if !tls.GetInsecureSkipVerify().GetValue() {
		common.ValidationContextType = combined(secret.CredentialRoots(tls.GetCredentialName()), trusting(tls, names, false))
	}
}

// trusting is what is asked of a server's certificate beside who issued it.
func trusting(tls *networking.ClientTLSSettings, names []string, crl bool) *tlsv3.CertificateValidationContext {
	out := &tlsv3.CertificateValidationContext{
		MatchSubjectAltNames: oneOf(names), //nolint:staticcheck // as above
	}
	if crl && tls.GetCaCrl() != "" {
		out.Crl = message.File(tls.GetCaCrl())
	}
	return out
}

// oneOf matches one of several names, of whatever sort.
func oneOf(names []string) []*matcherv3.StringMatcher {
	out := make([]*matcherv3.StringMatcher, len(names))
	for i, name := range names {
		out[i] = message.Exactly(name)
	}
	return out
}
