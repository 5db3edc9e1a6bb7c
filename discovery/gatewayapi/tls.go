package gatewayapi

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
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
		name, problem := g.secret(l.Of, r, "InvalidCertificateRef")
		if problem == (fault{}) && len(names) == mostCertificates {
			problem = fault{"InvalidCertificateRef", fmt.Sprintf("a listener has %d certificates at most: this one is left out", mostCertificates)}
		}
		if problem != (fault{}) {
			g.report(l.Of, fmt.Sprintf("%s.tls.certificateRefs[%d]", l.Path, i), problem.message)
			l.lost(problem.reason, fmt.Sprintf("certificateRefs[%d] %s", i, problem.message))
			continue
		}
		names = append(names, name.credential())
		l.certificates = append(l.certificates, name)
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

// CredentialPrefix begins the names by which gateways ask for secrets: a namespace and a name follow.
const CredentialPrefix = "kubernetes-gateway://" //nolint:gosec // a name holds no secret

// credential is the name by which gateways ask for the secret.
func (s Secret) credential() string { return CredentialPrefix + s.Namespace + "/" + s.Name }

// secret is the secret that a Gateway or a ListenerSet names. What is no secret is a fault of the
// reason. One of another namespace has to be granted.
func (g *Gateway) secret(of *kinds.Resource, r ref, reason string) (_ Secret, wrong fault) {
	to := r.resolved("", "Secret", of.Namespace)
	if !to.is("", "Secret") {
		return Secret{}, fault{reason, fmt.Sprintf("is a %s: name a secret, and this one is left out", to.kind)}
	}
	if wrong := g.granted(of, to); wrong != (fault{}) {
		return Secret{}, wrong
	}
	return Secret{to.namespace, to.name}, fault{}
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
	out.CaCertCredentialName = g.trustClients(l, check.CACertificateRefs)
	if out.GetCaCertCredentialName() == "" {
		return
	}
	out.Mode = networking.ServerTLSSettings_MUTUAL
	if check.Mode == insecureFallback {
		out.Mode, out.InsecureSkipVerify = networking.ServerTLSSettings_OPTIONAL_MUTUAL, wrapperspb.Bool(true)
	}
}

// granted is why a Gateway or a ListenerSet may not name something of another namespace, if it may not.
func (g *Gateway) granted(of *kinds.Resource, to target) fault {
	if to.namespace != of.Namespace {
		g.Abroad = withOne(g.Abroad, to.namespace)
	}
	if g.grants.allow(of, to) {
		return fault{}
	}
	return fault{reasonNoGrant, fmt.Sprintf("no ReferenceGrant of the namespace %s allows a %s of %s to name the %s %s: it is left out",
		to.namespace, of.Kind.Name, of.Namespace, strings.ToLower(to.kind), to.name)}
}
