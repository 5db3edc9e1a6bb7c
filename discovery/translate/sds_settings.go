package translate

import (
	networking "istio.io/api/networking/v1alpha3"
)

type certificatePair = networking.ServerTLSSettings_TLSCertificate

// credentialNames are those that a server names; ISTIO_MUTUAL takes none.
func credentialNames(settings *networking.ServerTLSSettings) []string {
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

// certificateFiles are the pairs of a certificate and its key that lie on the machine.
func certificateFiles(settings *networking.ServerTLSSettings) []*certificatePair {
	switch {
	case settings.GetMode() == networking.ServerTLSSettings_ISTIO_MUTUAL:
		return nil
	case len(settings.GetTlsCertificates()) > 0:
		return settings.GetTlsCertificates()
	case settings.GetServerCertificate() != "" && settings.GetPrivateKey() != "":
		return []*certificatePair{{ServerCertificate: settings.GetServerCertificate(), PrivateKey: settings.GetPrivateKey()}}
	default:
		return nil
	}
}

func requiresClient(settings *networking.ServerTLSSettings) bool {
	return settings.GetMode() == networking.ServerTLSSettings_MUTUAL || settings.GetMode() == networking.ServerTLSSettings_ISTIO_MUTUAL
}

// checksClients reports whether a client may show a certificate.
func checksClients(settings *networking.ServerTLSSettings) bool {
	return requiresClient(settings) || settings.GetMode() == networking.ServerTLSSettings_OPTIONAL_MUTUAL
}
