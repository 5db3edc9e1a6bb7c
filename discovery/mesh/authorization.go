package mesh

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	security "istio.io/api/security/v1beta1"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// dryRunAnnotation lets a policy be tried without being enforced.
const dryRunAnnotation = "istio.io/dry-run"

// AuthorizationPolicy is a policy with its annotations read.
type AuthorizationPolicy struct {
	Resource *kinds.Resource
	Spec     *security.AuthorizationPolicy
	// DryRun says that the policy's decision is logged, and refuses nobody.
	DryRun bool

	// attached encodes which proxies the policy is for: equal strings, equal proxies.
	attached string
	odd      string // what is wrong with its annotations
}

// authorizationIndex holds the policies by their namespace, the oldest first.
type authorizationIndex struct {
	root      string                                   // the root namespace
	all       map[*kinds.Resource]*AuthorizationPolicy // by resource, to reuse what was read
	in        map[string][]*AuthorizationPolicy        // by namespace
	selectors labelNames                               // names of the labels that policies select by
	// doubtful are the policies that may have problems.
	doubtful []*AuthorizationPolicy

	found once[string, []*AuthorizationPolicy] // by namespace and labels of proxies
}

// buildAuthorization indexes the policies that a step leads to. If none changed, it returns the
// index of prev; otherwise it reads only those that did.
func buildAuthorization(now configstore.Step, prev *Mesh, root string) *authorizationIndex {
	before := prev.policies
	if before == nil {
		before = &authorizationIndex{}
	} else if before.root == root && prev.unchanged(now, kindAuthorizationPolicy) {
		return before
	}
	index := &authorizationIndex{root: root, all: map[*kinds.Resource]*AuthorizationPolicy{}, in: map[string][]*AuthorizationPolicy{}}
	labels := labelKeys{gatewayNameLabel: true}
	for r := range now.Of(kindAuthorizationPolicy) {
		a, known := before.all[r]
		if !known {
			a = readAuthorizationPolicy(r)
		}
		index.all[r] = a
		index.in[r.Namespace] = append(index.in[r.Namespace], a)
		labels.add(a.Spec.GetSelector().GetMatchLabels())
		if a.odd != "" || a.Spec.GetAction() == security.AuthorizationPolicy_CUSTOM {
			index.doubtful = append(index.doubtful, a)
		}
	}
	index.selectors = namesIn([]labelKeys{labels})
	return index
}

func readAuthorizationPolicy(r *kinds.Resource) *AuthorizationPolicy {
	a := &AuthorizationPolicy{Resource: r, Spec: specOf[*security.AuthorizationPolicy](r)}
	a.attached = a.attachment().encode()
	if text, said := r.Annotations[dryRunAnnotation]; said {
		dry, err := strconv.ParseBool(text)
		if a.DryRun = dry; err != nil {
			a.odd = fmt.Sprintf("%s: %q is neither true nor false, so the policy is enforced. Write \"true\" to have it tried alone, or remove the annotation", dryRunAnnotation, text)
		}
	}
	return a
}

// attachment says which proxies of its namespace, or of the root namespace, the policy is for.
func (a *AuthorizationPolicy) attachment() attachment {
	return attachment{of: a.Resource, selector: a.Spec.GetSelector(), targets: targetsOrOne(a.Spec.GetTargetRefs(), a.Spec.GetTargetRef())}
}

// AuthorizationPolicies lists those that concern a proxy: of the root namespace and of its own, the
// older first in each. The slice must not be changed. A policy that did not change is the same one
// in the next mesh.
func (m *Mesh) AuthorizationPolicies(p *Proxy) []*AuthorizationPolicy {
	x := m.policies
	if len(x.all) == 0 {
		return nil
	}
	p = m.Known(p)
	return x.found.get(p.Namespace+" "+x.selectors.encode(p.Labels), func() (out []*AuthorizationPolicy) {
		for _, namespace := range slices.Compact([]string{x.root, p.Namespace}) {
			for _, a := range x.in[namespace] {
				if a.attachment().isFor(p) {
					out = append(out, a)
				}
			}
		}
		return out
	})
}

// sortsLike reports whether every proxy has policies of the same names as in an earlier index.
func (x *authorizationIndex) sortsLike(before *authorizationIndex) bool {
	if x == before {
		return true
	}
	if x.root != before.root || len(x.all) != len(before.all) {
		return false
	}
	for namespace, policies := range x.in {
		if !slices.EqualFunc(policies, before.in[namespace], func(a, b *AuthorizationPolicy) bool { return a.attached == b.attached }) {
			return false
		}
	}
	return true
}

// encodePolicies names the policies that concern a proxy.
func encodePolicies(policies []*AuthorizationPolicy) string {
	var b strings.Builder
	for _, a := range policies {
		fmt.Fprintf(&b, "%s/%s,", a.Resource.Namespace, a.Resource.Name)
	}
	return b.String()
}

// authorizationProblems lists policies that do not mean what they say, and providers that cannot be
// asked.
func (m *Mesh) authorizationProblems() []Problem {
	out := append(m.authorizers.problems(m), m.secretServerProblems()...)
	for _, a := range m.policies.doubtful {
		if a.odd != "" {
			out = append(out, Problem{Of: a.Resource.Key(), Path: "metadata.annotations", Reason: a.odd})
		}
		if a.Spec.GetAction() != security.AuthorizationPolicy_CUSTOM {
			continue
		}
		name := a.Spec.GetProvider().GetName()
		switch wrong := m.Authorizer(name).Wrong; {
		case a.DryRun:
			out = append(out, Problem{Of: a.Resource.Key(), Path: "metadata.annotations", Reason: "is without effect: a policy of action CUSTOM cannot be " +
				"tried without asking its provider. Remove " + dryRunAnnotation + " to have it enforced"})
		case wrong != "":
			out = append(out, Problem{Of: a.Resource.Key(), Path: "spec.provider.name", Reason: fmt.Sprintf(
				"the extension provider %q cannot be asked: %s. Until then whatever its rules match is refused", name, wrong)})
		}
	}
	return out
}
