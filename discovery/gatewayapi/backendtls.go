package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/kinds"
)

// BackendTLS is a BackendTLSPolicy: how whoever connects to a service speaks TLS to it.
type BackendTLS struct {
	Resource *kinds.Resource
	Problems []Problem
	Targets  []BackendTLSTarget
	// Secrets are those that it has authorities from.
	Secrets []Secret

	spec backendTLSSpec
}

// BackendTLSTarget is what a policy is for: a host, or those of a ServiceEntry, of its own namespace.
type BackendTLSTarget struct {
	Host    string
	Entry   kinds.Key // if there is no host
	Section string    // the name of a port; "" is every port that no other policy names

	reference ParentReference
	path      string
}

// ReadBackendTLS reads a BackendTLSPolicy.
func ReadBackendTLS(r *kinds.Resource) *BackendTLS {
	p := &BackendTLS{Resource: r}
	spec, err := specOf[backendTLSSpec](r)
	if err != nil {
		p.Problems = unreadable(r, err)
		return p
	}
	p.spec = spec
	for i, t := range spec.TargetRefs {
		t.Namespace = nil // a policy is for its own namespace
		to := t.resolved("", "", r.Namespace)
		target := BackendTLSTarget{
			Host: to.serviceHost(), Section: t.SectionName, path: fmt.Sprintf("spec.targetRefs[%d]", i),
			reference: ParentReference{Group: &to.group, Kind: &to.kind, Name: t.Name, SectionName: t.SectionName},
		}
		if to.is(groupIstio, KindServiceEntry.Name) {
			target.Entry = to.entryKey()
		}
		p.Targets = append(p.Targets, target)
	}
	for _, ref := range spec.Validation.CACertificateRefs {
		if ref.is("", "Secret") {
			p.Secrets = withOne(p.Secrets, Secret{r.Namespace, ref.Name})
		}
	}
	return p
}

// is reports whether a ref that says a group and a kind says these.
func (r ref) is(group, kind string) bool { return or(r.Group, "") == group && or(r.Kind, "") == kind }

// Secured is what a policy comes to, wherever it holds.
type Secured struct {
	// TLS is what connections are to be. Those of a policy whose authorities cannot be had fail.
	TLS *networking.ClientTLSSettings
	// Trusted are the authorities that TLS names.
	Trusted *Authority

	invalid    fault
	unresolved faults
}

// Secure returns what the policy comes to, by the authorities that secrets have.
func (p *BackendTLS) Secure(trust func(Secret) (credential.Trust, bool)) *Secured {
	v := p.spec.Validation
	s := &Secured{TLS: &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE, Sni: v.Hostname}}
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
func (p *BackendTLS) trust(s *Secured, trust func(Secret) (credential.Trust, bool)) {
	in := p.Resource.Authorities()
	var all credential.Trust
	for i, r := range p.spec.Validation.CACertificateRefs {
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
func authorityOf(r ref, namespace string, in map[string]string, trust func(Secret) (credential.Trust, bool)) (found credential.Trust, wrong fault) {
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

// AllProblems are those of the policy and of what it comes to.
func (p *BackendTLS) AllProblems(s *Secured) []Problem {
	out := slices.Clone(p.Problems)
	for _, wrong := range s.unresolved {
		out = append(out, Problem{p.Resource.Key(), "spec.validation.caCertificateRefs", wrong.message})
	}
	if s.invalid != (fault{}) {
		out = append(out, Problem{p.Resource.Key(), "spec.validation", s.invalid.message + ": connections to what it is for fail"})
	}
	return out
}
