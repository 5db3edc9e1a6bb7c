package secret

import (
	networking "istio.io/api/networking/v1alpha3"
)

// CredentialNames are the credentials that a server names. ISTIO_MUTUAL takes none.
func CredentialNames(settings *networking.ServerTLSSettings) []string {
	switch {
	case settings.GetMode() == networking.ServerTLSSettings_ISTIO_MUTUAL:
		return nil
	case len(settings.GetCredentialNames()) > 0:
		return settings.GetCredentialNames()
	case settings.GetCredentialName() != "":
		return []string{settings.GetCredentialName()}
	default:
		return nil
	}
}

// CertificateFiles are the pairs of a certificate and its key that a server names on its machine.
func CertificateFiles(settings *networking.ServerTLSSettings) []*networking.ServerTLSSettings_TLSCertificate {
	switch {
	case settings.GetMode() == networking.ServerTLSSettings_ISTIO_MUTUAL:
		return nil
	case len(settings.GetTlsCertificates()) > 0:
		return settings.GetTlsCertificates()
	case settings.GetServerCertificate() != "" && settings.GetPrivateKey() != "":
		return []*networking.ServerTLSSettings_TLSCertificate{
			{ServerCertificate: settings.GetServerCertificate(), PrivateKey: settings.GetPrivateKey()},
		}
	default:
		return nil
	}
}

// RequiresClients reports whether a client must show a certificate.
func RequiresClients(settings *networking.ServerTLSSettings) bool {
	return settings.GetMode() == networking.ServerTLSSettings_MUTUAL || settings.GetMode() == networking.ServerTLSSettings_ISTIO_MUTUAL
}

// ChecksClients reports whether a client may show a certificate.
func ChecksClients(settings *networking.ServerTLSSettings) bool {
	return RequiresClients(settings) || settings.GetMode() == networking.ServerTLSSettings_OPTIONAL_MUTUAL
}
