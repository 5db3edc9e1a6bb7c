package translate

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// systemRoots is where Debian, and whatever follows it, keeps the certificates that the machine trusts.
const systemRoots = "/etc/ssl/certs/ca-certificates.crt"

// applyUpstreamTLS makes a cluster's connections TLS, for the modes whose certificates lie in files or need none.
// ISTIO_MUTUAL needs identities, which proxies do not have yet.
func applyUpstreamTLS(d *draft, tls *networking.ClientTLSSettings, port *mesh.Port) {
	if !originates(tls.GetMode()) || tls.GetCredentialName() != "" {
		return
	}
	context := &tlsv3.UpstreamTlsContext{Sni: tls.GetSni(), CommonTlsContext: &tlsv3.CommonTlsContext{TlsParams: tlsVersions}}
	if port.Protocol.IsHTTP2() || d.http.GetExplicitHttpConfig().GetHttp2ProtocolOptions() != nil {
		context.CommonTlsContext.AlpnProtocols = []string{"h2"}
	}
	if tls.GetMode() == networking.ClientTLSSettings_MUTUAL {
		context.CommonTlsContext.TlsCertificates = []*tlsv3.TlsCertificate{{
			CertificateChain: file(tls.GetClientCertificate()), PrivateKey: file(tls.GetPrivateKey()),
		}}
	}
	if !tls.GetInsecureSkipVerify().GetValue() {
		context.CommonTlsContext.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: trust(tls)}
	}
	d.TransportSocket = &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: pack(context)},
	}
	if tls.GetSni() == "" {
		d.serverNameFromHost()
	}
}

// tlsVersions are those that a client of the mesh speaks.
var tlsVersions = &tlsv3.TlsParameters{
	TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
}

// originates reports whether the rule, and not the mesh, makes connections TLS.
func originates(mode networking.ClientTLSSettings_TLSmode) bool {
	return mode == networking.ClientTLSSettings_SIMPLE || mode == networking.ClientTLSSettings_MUTUAL
}

// serverNameFromHost asks for, and expects, the host that each request names, where the rule names none.
func (d *draft) serverNameFromHost() {
	o := d.options()
	if o.GetUpstreamHttpProtocolOptions() == nil {
		o.UpstreamHttpProtocolOptions = &corev3.UpstreamHttpProtocolOptions{}
	}
	o.UpstreamHttpProtocolOptions.AutoSni = true
	o.UpstreamHttpProtocolOptions.AutoSanValidation = true
}

func trust(tls *networking.ClientTLSSettings) *tlsv3.CertificateValidationContext {
	roots := tls.GetCaCertificates()
	if roots == "" {
		roots = systemRoots
	}
	out := &tlsv3.CertificateValidationContext{TrustedCa: file(roots)}
	for _, name := range tls.GetSubjectAltNames() {
		match := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name}}
		for _, kind := range []tlsv3.SubjectAltNameMatcher_SanType{tlsv3.SubjectAltNameMatcher_DNS, tlsv3.SubjectAltNameMatcher_URI} {
			out.MatchTypedSubjectAltNames = append(out.MatchTypedSubjectAltNames, &tlsv3.SubjectAltNameMatcher{SanType: kind, Matcher: match})
		}
	}
	return out
}

func file(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}
