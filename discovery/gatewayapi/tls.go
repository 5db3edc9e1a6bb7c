package gatewayapi

import (
	"fmt"

	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
)

// modeOption has TLS of a listener checked as Istio's own options say.
const modeOption = "gateway.istio.io/tls-terminate-mode"

// mostCertificates is how many a listener may have: one for each sort of key.
const mostCertificates = 2

// tls says how TLS ends at a listener; nil if there is none. It says why the listener cannot be
// served if it cannot: one that asked for less would let everybody in.
func (g *Gateway) tls(l *Listener, spec *tlsSpec, gateway gatewaySpec) (out *networking.ServerTLSSettings, wrong string) {
	if spec == nil {
		if l.protocol == "HTTPS" || l.protocol == "TLS" {
			return nil, "has no tls: the listener is left out. Name a certificate in tls.certificateRefs"
		}
		return nil, ""
	}
	if or(spec.Mode, "Terminate") == "Passthrough" {
		return &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_PASSTHROUGH}, ""
	}
	out = &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE}
	if spec.Options[modeOption] == "ISTIO_MUTUAL" {
		out.Mode = networking.ServerTLSSettings_ISTIO_MUTUAL
		return out, ""
	}
	if wrong = g.certify(l, out, spec.CertificateRefs); wrong != "" {
		return nil, wrong
	}
	if wrong = g.checkClients(l, out, gateway); wrong != "" {
		return nil, wrong
	}
	switch spec.Options[modeOption] {
	case "MUTUAL":
		out.Mode = networking.ServerTLSSettings_MUTUAL
	case "OPTIONAL_MUTUAL":
		out.Mode = networking.ServerTLSSettings_OPTIONAL_MUTUAL
	}
	return out, ""
}

// certify names the certificates of a listener. A listener without one that it may have cannot be
// served.
func (g *Gateway) certify(l *Listener, out *networking.ServerTLSSettings, refs []ref) (wrong string) {
	var names []string
	for i, r := range refs {
		name, problem := g.secret(l, r)
		if problem == "" && len(names) == mostCertificates {
			problem = fmt.Sprintf("a listener has %d certificates at most: this one is left out", mostCertificates)
		}
		if problem != "" {
			g.report(l.Of, fmt.Sprintf("%s.tls.certificateRefs[%d]", l.Path, i), problem)
			continue
		}
		names = append(names, name)
	}
	switch len(names) {
	case 0:
		return "has no certificate that it may use: the listener is left out"
	case 1:
		out.CredentialName = names[0]
	default:
		out.CredentialNames = names
	}
	return ""
}

// secret is the name by which gateways ask for a secret.
func (g *Gateway) secret(l *Listener, r ref) (name, wrong string) {
	to := r.resolved("", "Secret", l.Of.Namespace)
	switch {
	case !to.is("", "Secret"):
		return "", fmt.Sprintf("is a %s: gateways have certificates from secrets alone, and this one is left out", to.kind)
	case to.namespace != g.Resource.Namespace:
		return "", fmt.Sprintf("gateways are given the secrets of their own namespace alone, which is %s: this one is left out. Put the secret there", g.Resource.Namespace)
	}
	return "kubernetes-gateway://" + to.namespace + "/" + to.name, ""
}

// checkClients has certificates of clients checked as the Gateway says for the port.
func (g *Gateway) checkClients(l *Listener, out *networking.ServerTLSSettings, gateway gatewaySpec) (wrong string) {
	frontend := gateway.TLS.Frontend
	if frontend == nil {
		return ""
	}
	check := frontend.Default.Validation
	for _, at := range frontend.PerPort {
		if at.Port == l.port {
			check = at.TLS.Validation
		}
	}
	if check == nil {
		return ""
	}
	if len(check.CACertificateRefs) != 1 {
		return "checks clients by several authorities: the listener is left out. Name one secret that has all of them"
	}
	name, wrong := g.secret(&Listener{Of: g.Resource}, check.CACertificateRefs[0])
	if wrong != "" {
		return "the authority that clients are checked by cannot be had, and the listener is left out: it " + wrong
	}
	out.Mode, out.CaCertCredentialName = networking.ServerTLSSettings_MUTUAL, name+"-cacert"
	if check.Mode == "AllowInsecureFallback" {
		out.Mode, out.InsecureSkipVerify = networking.ServerTLSSettings_OPTIONAL_MUTUAL, wrapperspb.Bool(true)
	}
	return ""
}
