package transport

import (
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/secret"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// systemRoots is where Debian, and what derives from it, keeps the certificates that the machine
// trusts.
const systemRoots = "/etc/ssl/certs/ca-certificates.crt"

// machineTrust means what the machine trusts, in a rule and to an agent.
const machineTrust = "system"

// showFiles takes the certificate, and whom to trust, from files on the proxy's machine. An agent
// that serves secrets reads them, and again when they change. Without one Envoy reads them, when it
// is given the cluster.
func showFiles(v view.View, common *tlsv3.CommonTlsContext, tls *networking.ClientTLSSettings, names []string) {
	if tls.GetMode() == networking.ClientTLSSettings_MUTUAL {
		showCertificateFile(v, common, tls)
	}
	switch {
	case tls.GetInsecureSkipVerify().GetValue():
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{}
	case v.Proxy.Identity.FromAgent:
		common.ValidationContextType = combined(secret.FromAgent(secret.RootsName(rootsFile(tls, machineTrust))), checks(tls, names, true))
	default:
		roots := rootsFile(tls, systemRoots)
		if roots == machineTrust {
			roots = systemRoots
		}
		context := checks(tls, names, true)
		context.TrustedCa = message.File(roots)
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: context}
	}
}

func showCertificateFile(v view.View, common *tlsv3.CommonTlsContext, tls *networking.ClientTLSSettings) {
	if v.Proxy.Identity.FromAgent {
		name := secret.CertificateName(tls.GetClientCertificate(), tls.GetPrivateKey())
		common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{secret.FromAgent(name)}
		return
	}
	common.TlsCertificates = []*tlsv3.TlsCertificate{{CertificateChain: message.File(tls.GetClientCertificate()), PrivateKey: message.File(tls.GetPrivateKey())}}
}

func rootsFile(tls *networking.ClientTLSSettings, fallback string) string {
	if roots := tls.GetCaCertificates(); roots != "" {
		return roots
	}
	return fallback
}
