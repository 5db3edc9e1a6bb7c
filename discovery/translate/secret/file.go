package secret

import (
	"maps"
	"slices"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// CertificateName is Istio's name for a certificate and its key in files.
func CertificateName(certificate, key string) string { return "file-cert:" + certificate + "~" + key }

// RootsName is Istio's name for roots in a file.
func RootsName(path string) string { return "file-root:" + path }

// ofFiles lists the secrets that name files of the proxy's machine: certificates with their keys,
// and roots. They hold paths and nothing else. Envoy reads the files, and again when something is
// moved into their folder. If a file is missing, only what needs it waits.
func ofFiles(v view.View) []*tlsv3.Secret {
	found := map[string]*tlsv3.Secret{}
	for _, settings := range servedTLS(v) {
		for _, secret := range serverFiles(settings) {
			found[secret.GetName()] = secret
		}
	}
	return slices.Collect(maps.Values(found))
}

// servedTLS has the settings of the servers whose TLS ends at the proxy: those of a router's
// Gateways, or of a sidecar's own Sidecar.
func servedTLS(v view.View) []*networking.ServerTLSSettings {
	var out []*networking.ServerTLSSettings
	if v.Sidecar() && !v.Proxy.Identity.FromAgent {
		out = append(out, ownFiles(v.Proxy.Identity.Server))
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

// ownFiles writes the files that a proxy names itself as the settings of a server.
func ownFiles(own mesh.ServerFiles) *networking.ServerTLSSettings {
	return &networking.ServerTLSSettings{
		Mode:              networking.ServerTLSSettings_MUTUAL,
		ServerCertificate: own.Certificate, PrivateKey: own.Key, CaCertificates: own.Roots,
	}
}

// serverFiles has the files of a server that ends TLS.
func serverFiles(settings *networking.ServerTLSSettings) []*tlsv3.Secret {
	if len(CredentialNames(settings)) > 0 {
		return nil
	}
	var out []*tlsv3.Secret
	for _, pair := range CertificateFiles(settings) {
		out = append(out, &tlsv3.Secret{
			Name: CertificateName(pair.GetServerCertificate(), pair.GetPrivateKey()),
			Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
				CertificateChain: message.File(pair.GetServerCertificate()), PrivateKey: message.File(pair.GetPrivateKey()),
			}},
		})
	}
	if roots := settings.GetCaCertificates(); roots != "" && ChecksClients(settings) {
		out = append(out, &tlsv3.Secret{
			Name: RootsName(roots),
			Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: message.File(roots)}},
		})
	}
	return out
}
