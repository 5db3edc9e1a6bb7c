package gatewayapi

import (
	"fmt"

	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
)

// modeOption has TLS of a listener checked as Istio's own options say.
const modeOption = "gateway.istio.io/tls-terminate-mode"

// insecureFallback lets clients in without a valid certificate.
const insecureFallback = "AllowInsecureFallback"

// mostCertificates is how many a listener may have: one for each sort of key.
const mostCertificates = 2

// tls says how TLS ends at a listener; nil if there is none. It notes why the listener cannot be
// served if it cannot: one that asked for less would let everybody in.
func (g *Gateway) tls(l *Listener, spec *tlsSpec, gateway gatewaySpec) *networking.ServerTLSSettings {
	if spec == nil {
		if l.protocol == "HTTPS" || l.protocol == "TLS" {
			l.refuse(reasonUnknown, "has no tls: the listener is left out. Name a certificate in tls.certificateRefs")
		}
		return nil
	}
	if l.passes {
		return &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_PASSTHROUGH}
	}
	out := &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE}
	if spec.Options[modeOption] == "ISTIO_MUTUAL" {
		out.Mode = networking.ServerTLSSettings_ISTIO_MUTUAL
		return out
	}
	g.certify(l, out, spec.CertificateRefs)
	g.checkClients(l, out, gateway)
	switch spec.Options[modeOption] {
	case "MUTUAL":
		out.Mode = networking.ServerTLSSettings_MUTUAL
	case "OPTIONAL_MUTUAL":
		out.Mode = networking.ServerTLSSettings_OPTIONAL_MUTUAL
	}
	return out
}

// certify names the certificates of a listener. A listener without one that it may have cannot be
// served, but is right in itself.
func (g *Gateway) certify(l *Listener, out *networking.ServerTLSSettings, refs []ref) {
	var names []string
	for i, r := range refs {
		name, problem := g.secret(l, r, "InvalidCertificateRef")
		if problem == (fault{}) && len(names) == mostCertificates {
			problem = fault{"InvalidCertificateRef", fmt.Sprintf("a listener has %d certificates at most: this one is left out", mostCertificates)}
		}
		if problem != (fault{}) {
			g.report(l.Of, fmt.Sprintf("%s.tls.certificateRefs[%d]", l.Path, i), problem.message)
			l.lost(problem.reason, fmt.Sprintf("certificateRefs[%d] %s", i, problem.message))
			continue
		}
		names = append(names, name)
		l.certificates = append(l.certificates, Secret{or(r.Namespace, l.Of.Namespace), r.Name})
	}
	switch len(names) {
	case 0:
		l.uncertified = true
	case 1:
		out.CredentialName = names[0]
	default:
		out.CredentialNames = names
	}
}

// secret is the name by which gateways ask for a secret. What is no secret is a fault of the reason.
func (g *Gateway) secret(l *Listener, r ref, reason string) (name string, wrong fault) {
	to := r.resolved("", "Secret", l.Of.Namespace)
	switch {
	case !to.is("", "Secret"):
		return "", fault{reason, fmt.Sprintf("is a %s: gateways have certificates from secrets alone, and this one is left out", to.kind)}
	case to.namespace != g.Resource.Namespace:
		return "", fault{reasonNoGrant, fmt.Sprintf("gateways are given the secrets of their own namespace alone, which is %s: this one is left out. Put the secret there", g.Resource.Namespace)}
	}
	return "kubernetes-gateway://" + to.namespace + "/" + to.name, fault{}
}

// checkClients has certificates of clients checked as the Gateway says for the port.
func (g *Gateway) checkClients(l *Listener, out *networking.ServerTLSSettings, gateway gatewaySpec) {
	frontend := gateway.TLS.Frontend
	if frontend == nil {
		return
	}
	check := frontend.Default.Validation
	for _, at := range frontend.PerPort {
		if at.Port == l.port {
			check = at.TLS.Validation
		}
	}
	if check == nil {
		return
	}
	if len(check.CACertificateRefs) != 1 {
		l.refuse("NoValidCACertificate", "checks clients by several authorities: the listener is left out. Name one secret that has all of them")
		return
	}
	name, wrong := g.secret(&Listener{Of: g.Resource}, check.CACertificateRefs[0], "InvalidCACertificateKind")
	if wrong != (fault{}) {
		l.lost(wrong.reason, wrong.message)
		l.refuse("NoValidCACertificate", "the authority that clients are checked by cannot be had, and the listener is left out: it "+wrong.message)
		return
	}
	out.Mode, out.CaCertCredentialName = networking.ServerTLSSettings_MUTUAL, name+"-cacert"
	if check.Mode == insecureFallback {
		out.Mode, out.InsecureSkipVerify = networking.ServerTLSSettings_OPTIONAL_MUTUAL, wrapperspb.Bool(true)
	}
}
