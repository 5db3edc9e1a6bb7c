package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/kinds"
)

// secure returns what a BackendTLSPolicy comes to, by the authorities that secrets have.
func (p *Policy) secure(trust Trusting) *Effect {
	v := p.tls.Validation
	s := &Effect{TLS: &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE, Sni: v.Hostname}}
	names, wrong := v.names()
	s.TLS.SubjectAltNames, s.invalid = names, wrong
	switch {
	case len(v.CACertificateRefs) > 0:
		p.trust(s, trust)
	case v.WellKnownCACertificates != "System":
		s.invalid = cmp.Or(s.invalid, fault{reasonInvalid, fmt.Sprintf("nobody knows the authorities %q: write System, or name some in caCertificateRefs", v.WellKnownCACertificates)})
	}
	if s.invalid != (fault{}) {
		s.TLS.CredentialName, s.Trusted = NoAuthority, nil
	}
	return s
}

// names are those of which a server has to show one.
func (v *validationSpec) names() (out []string, wrong fault) {
	for i, name := range v.SubjectAltNames {
		one := map[string]string{"Hostname": name.Hostname, "URI": name.URI}[name.Type]
		if one == "" {
			return nil, fault{reasonInvalid, fmt.Sprintf("subjectAltNames[%d] is no name of the type %q: write a hostname for Hostname, or a uri for URI", i, name.Type)}
		}
		out = append(out, one)
	}
	if v.Hostname == "" {
		return nil, fault{reasonInvalid, "there is no hostname to ask the server for"}
	}
	if len(out) == 0 {
		out = []string{v.Hostname}
	}
	return out, fault{}
}

// trust finds the authorities that the policy names. Those that can be had count.
func (p *Policy) trust(s *Effect, trust Trusting) {
	in := p.Resource.Authorities()
	var all credential.Trust
	for i, r := range p.tls.Validation.CACertificateRefs {
		one, wrong := authorityOf(r, p.Resource.Namespace, in, trust)
		if wrong != (fault{}) {
			wrong.message = fmt.Sprintf("caCertificateRefs[%d]: %s", i, wrong.message)
			s.unresolved = append(s.unresolved, wrong)
			continue
		}
		all.Authorities = slices.Concat(all.Authorities, one.Authorities, []byte("\n"))
		all.Revoked = slices.Concat(all.Revoked, one.Revoked)
	}
	if len(all.Authorities) == 0 {
		s.invalid = cmp.Or(s.invalid, fault{reasonNoTrust, "none of the authorities that it names can be had, and connections fail"})
		return
	}
	s.TLS.CredentialName = trustCredential(p.Resource)
	s.Trusted = &Authority{Name: s.TLS.CredentialName + kinds.AuthoritySuffix, Trust: all}
}

// authorityOf is the authority that a policy names.
func authorityOf(r ref, namespace string, in map[string]string, trust Trusting) (found credential.Trust, wrong fault) {
	var has bool
	switch {
	case r.is("", "ConfigMap"):
		found.Authorities = []byte(in[namespace+"/"+r.Name])
		has = len(found.Authorities) > 0
	case r.is("", "Secret"):
		found, has = trust(Secret{namespace, r.Name})
	default:
		return found, fault{"InvalidKind", fmt.Sprintf("a %s of %q has no authorities: name a ConfigMap or a Secret that has ca.crt", or(r.Kind, ""), or(r.Group, ""))}
	}
	if !has {
		return found, fault{reasonNoAuthority, fmt.Sprintf("there is no %s %s/%s that has certificates of authorities in ca.crt", *r.Kind, namespace, r.Name)}
	}
	return found, fault{}
}
