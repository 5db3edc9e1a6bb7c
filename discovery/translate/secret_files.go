package translate

import (
	"maps"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// fileSecrets are the secrets that name files of the proxy's machine: certificates with their keys, and roots. They hold
// paths and nothing else. Envoy reads the files, and reads them again when something is moved into their folder; where
// they are missing, only what needs them waits.
func fileSecrets(v view.View) []*tlsv3.Secret {
	found := map[string]*tlsv3.Secret{}
	for _, settings := range servedTLS(v) {
		for _, secret := range serverFiles(settings) {
			found[secret.GetName()] = secret
		}
	}
	return slices.Collect(maps.Values(found))
}

// servedTLS are the servers whose TLS ends at the proxy: those of a router's Gateways, or of a sidecar's own Sidecar.
func servedTLS(v view.View) []*networking.ServerTLSSettings {
	var out []*networking.ServerTLSSettings
	if v.Sidecar() && !v.Proxy.Identity.FromAgent {
		out = append(out, filesOf(v.Proxy.Identity.Server))
	}
	for _, ingress := range v.Scope.SidecarSpec.GetIngress() {
		out = append(out, ingress.GetTls())
	}
	if v.Sidecar() {
		return out
	}
	for _, s := range v.Mesh.Frontend(v.Proxy).Servers {
		if s.EndsTLS() {
			out = append(out, s.Spec.GetTls())
		}
	}
	return out
}

// filesOf are files that a proxy names itself, as a server's.
func filesOf(own mesh.ServerFiles) *networking.ServerTLSSettings {
	return &networking.ServerTLSSettings{
		Mode:              networking.ServerTLSSettings_MUTUAL,
		ServerCertificate: own.Certificate, PrivateKey: own.Key, CaCertificates: own.Roots,
	}
}

// serverFiles are the files of a server that ends TLS.
func serverFiles(settings *networking.ServerTLSSettings) []*tlsv3.Secret {
	if len(credentialNames(settings)) > 0 {
		return nil
	}
	var out []*tlsv3.Secret
	for _, pair := range certificateFiles(settings) {
		out = append(out, &tlsv3.Secret{
			Name: certificateName(pair),
			Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
				CertificateChain: message.File(pair.GetServerCertificate()), PrivateKey: message.File(pair.GetPrivateKey()),
			}},
		})
	}
	if roots := settings.GetCaCertificates(); roots != "" && checksClients(settings) {
		out = append(out, &tlsv3.Secret{
			Name: rootsName(roots),
			Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: message.File(roots)}},
		})
	}
	return out
}

// certificateName is what Istio calls a certificate that lies in files.
func certificateName(pair *certificatePair) string {
	return "file-cert:" + pair.GetServerCertificate() + "~" + pair.GetPrivateKey()
}

// rootsName is what Istio calls roots that lie in a file.
func rootsName(path string) string { return "file-root:" + path }

// fileSecret asks for a secret that names files, on the stream that everything else comes by.
func fileSecret(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}}
}
