package gatewayapi

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// Policy is one that is attached to services: a BackendTLSPolicy says how whoever connects to them speaks
// TLS, and an XBackendTrafficPolicy what becomes of retries and of sessions.
type Policy struct {
	Resource *kinds.Resource
	Problems []Problem
	Targets  []PolicyTarget
	// Secrets are those that it has authorities from.
	Secrets []Secret

	tls     backendTLSSpec
	traffic trafficSpec
}

// PolicyTarget is what a policy is for: a host, or those of a ServiceEntry, of its own namespace.
type PolicyTarget struct {
	Host    string
	Entry   kinds.Key // if there is no host
	Section string    // the name of a port; "" is every port that no other policy names

	reference ParentReference
	path      string
}

// Policies are the kinds of policies.
var Policies = []*kinds.Kind{KindBackendTLS, KindBackendTraffic}

// ReadPolicy reads a policy.
func ReadPolicy(r *kinds.Resource) *Policy {
	p := &Policy{Resource: r}
	var err error
	targets := &p.tls.TargetRefs
	if r.Kind == KindBackendTraffic {
		p.traffic, err = specOf[trafficSpec](r)
		targets = &p.traffic.TargetRefs
	} else {
		p.tls, err = specOf[backendTLSSpec](r)
	}
	if err != nil {
		p.Problems = unreadable(r, err)
		return p
	}
	for i, t := range *targets {
		t.Namespace = nil // a policy is for its own namespace
		to := t.resolved("", "", r.Namespace)
		target := PolicyTarget{
			Host: to.serviceHost(), Section: t.SectionName, path: fmt.Sprintf("spec.targetRefs[%d]", i),
			reference: ParentReference{Group: &to.group, Kind: &to.kind, Name: t.Name, SectionName: t.SectionName},
		}
		if to.is(groupIstio, KindServiceEntry.Name) {
			target.Entry = to.entryKey()
		}
		p.Targets = append(p.Targets, target)
	}
	for _, ref := range p.tls.Validation.CACertificateRefs {
		if ref.is("", "Secret") {
			p.Secrets = withOne(p.Secrets, Secret{r.Namespace, ref.Name})
		}
	}
	return p
}

// is reports whether a ref that says a group and a kind says these.
func (r ref) is(group, kind string) bool { return or(r.Group, "") == group && or(r.Kind, "") == kind }

// Effect is what a policy comes to, wherever it holds.
type Effect struct {
	// TLS is what connections are to be. Those of a policy whose authorities cannot be had fail.
	TLS *networking.ClientTLSSettings
	// Trusted are the authorities that TLS names.
	Trusted *Authority
	// Retries bounds retries; nil for no bound.
	Retries *networking.TrafficPolicy_RetryBudget
	// Session has requests of one session go to one endpoint; nil if nothing does.
	Session *Session

	invalid    fault
	unresolved faults
}

// EffectBy returns what the policy comes to, by the authorities that secrets have.
func (p *Policy) EffectBy(trust Trusting) *Effect {
	if p.Resource.Kind == KindBackendTraffic {
		return p.guide()
	}
	return p.secure(trust)
}

// AllProblems are those of the policy and of what it comes to.
func (p *Policy) AllProblems(e *Effect) []Problem {
	out := slices.Clone(p.Problems)
	for _, wrong := range e.unresolved {
		out = append(out, Problem{p.Resource.Key(), "spec.validation.caCertificateRefs", wrong.message})
	}
	switch {
	case e.invalid == (fault{}):
	case p.Resource.Kind == KindBackendTraffic:
		out = append(out, Problem{p.Resource.Key(), "spec.sessionPersistence", e.invalid.message})
	default:
		out = append(out, Problem{p.Resource.Key(), "spec.validation", e.invalid.message + ": connections to what it is for fail"})
	}
	return out
}
