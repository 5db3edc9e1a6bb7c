package convert_test

import (
	"slices"
	"strings"

	security "istio.io/api/security/v1beta1"

	"github.com/pgmesh/pgmesh/kinds"
)

// asked is a request of a member of the mesh to a workload.
type asked struct {
	principal string // as in its certificate
	labels    map[string]string
	request
}

// allowed is what AuthorizationPolicies decide: if there is one that allows something, one of its rules has to match,
// and none of one that denies.
func allowed(documents []*kinds.Document, a asked) bool {
	found, allowed := false, false
	for _, d := range documents {
		p, is := d.Resource.Spec.Message().(*security.AuthorizationPolicy)
		if !is || !within(p.GetSelector().GetMatchLabels(), a.labels) {
			continue
		}
		matches := slices.ContainsFunc(p.GetRules(), a.meets)
		if p.GetAction() == security.AuthorizationPolicy_DENY {
			if matches {
				return false
			}
			continue
		}
		found, allowed = true, allowed || matches
	}
	return allowed || !found
}

func within(selector, labels map[string]string) bool { return kinds.LabelsWithin(selector, labels) }

func (a asked) meets(r *security.Rule) bool {
	return (len(r.GetFrom()) == 0 || slices.ContainsFunc(r.GetFrom(), func(f *security.Rule_From) bool {
		return one(f.GetSource().GetPrincipals(), a.principal) && !some(f.GetSource().GetNotPrincipals(), a.principal)
	})) && (len(r.GetTo()) == 0 || slices.ContainsFunc(r.GetTo(), func(t *security.Rule_To) bool {
		o := t.GetOperation()
		return one(o.GetPaths(), a.path) && !some(o.GetNotPaths(), a.path) && one(o.GetMethods(), a.method) && !some(o.GetNotMethods(), a.method)
	})) && !slices.ContainsFunc(r.GetWhen(), func(c *security.Condition) bool {
		name := strings.TrimSuffix(strings.TrimPrefix(c.GetKey(), "request.headers["), "]")
		value, there := a.headers[name]
		is := func(pattern string) bool { return there && pattern == "*" || there && like(pattern, value) }
		return len(c.GetValues()) > 0 && !slices.ContainsFunc(c.GetValues(), is) || slices.ContainsFunc(c.GetNotValues(), is)
	})
}

// one reports whether nothing is asked for, or one of what is.
func one(patterns []string, value string) bool { return len(patterns) == 0 || some(patterns, value) }

func some(patterns []string, value string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return like(p, value) })
}

// like reads a value of a policy, which may begin or end with "*".
func like(pattern, value string) bool {
	begin, isBegin := strings.CutSuffix(pattern, "*")
	end, isEnd := strings.CutPrefix(pattern, "*")
	switch {
	case pattern == "*":
		return value != ""
	case isBegin:
		return strings.HasPrefix(value, begin)
	case isEnd:
		return strings.HasSuffix(value, end)
	}
	return pattern == value
}
