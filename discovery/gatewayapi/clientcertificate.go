package gatewayapi

import "fmt"

// reasonNoCertificate is that of a certificate for backends that cannot be had.
const reasonNoCertificate = "InvalidClientCertificateRef"

// showing is what a Gateway shows to backends whose TLS a policy asks for.
type showing struct {
	certificate Secret // the zero Secret for none that it may have
	wrong       fault
}

// readCertificate reads what the Gateway shows to backends. With a certificate that it may not have,
// connections fail: without one, a backend could take the gateway for somebody else.
func (g *Gateway) readCertificate() {
	backend := g.spec.TLS.Backend
	if backend == nil || backend.ClientCertificateRef == nil {
		return
	}
	g.Shows = NoAuthority
	g.shown.certificate, g.shown.wrong = g.secret(g.Resource, *backend.ClientCertificateRef, reasonNoCertificate)
	if g.shown.wrong != (fault{}) {
		g.report(g.Resource, "spec.tls.backend.clientCertificateRef", g.shown.wrong.message+". Connections to backends whose TLS a policy asks for fail")
		return
	}
	g.Shows = g.shown.certificate.credential()
}

// lacks is why the Gateway has not what it is to show to backends; the zero fault if it has.
func (g *Gateway) lacks(known func(Secret) bool) fault {
	switch s := g.shown.certificate; {
	case g.shown.wrong != (fault{}):
		return fault{g.shown.wrong.reason, "clientCertificateRef " + g.shown.wrong.message}
	case s != (Secret{}) && !known(s):
		return fault{reasonNoCertificate, fmt.Sprintf("clientCertificateRef names %s/%s: there is no such secret that has a certificate with its key", s.Namespace, s.Name)}
	default:
		return fault{}
	}
}
