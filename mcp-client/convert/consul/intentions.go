package consul

import (
	"cmp"
	"maps"
	"slices"

	security "istio.io/api/security/v1beta1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// trustDomain is that of the mesh, whatever it is called.
const trustDomain = "cluster.local"

// source is one of an intention: whom it is about, and what they may do.
type source struct {
	namespace, name string // "*" is any
	allowed         bool
	permissions     []permission // if there are some they count, and allowed is what is not said by any of them

	destination int // how exact the destination is
	at          report.Place
}

// exact counts the names that are no "*". The more there are, the earlier the intention counts.
func exact(names ...string) (out int) {
	for _, name := range names {
		if name != everything {
			out++
		}
	}
	return out
}

// covers reports whether all that other is about is about this source, too.
func (s *source) covers(other *source) bool {
	return (s.namespace == everything || s.namespace == other.namespace) && (s.name == everything || s.name == other.name)
}

// principal is how the mesh names it.
func (s *source) principal() string {
	if s.namespace == everything {
		return everything
	}
	return trustDomain + "/ns/" + s.namespace + "/sa/" + s.name
}

// policies writes who may ask which service. Consul takes the most exact intention that is about both; here what
// allows is written, without what a more exact one is about.
func (c *Conversion) policies(all []*service) {
	entries := slices.DeleteFunc(slices.Clone(all), func(s *service) bool { return s.intentions == nil })
	if len(entries) == 0 && c.defaults != "deny" {
		return
	}
	if c.defaults == "" {
		c.Lose(report.Place{File: entries[0].intentions.At.File}, "nothing says what Consul does where no intention matches: requests are refused then",
			"if it allows them, convert what /v1/agent/self answers with it, or the agent's configuration with acl.default_policy")
	}
	sources := map[*service][]source{}
	for _, s := range entries {
		sources[s] = c.sources(s)
	}
	namespaces := map[string]report.Place{}
	for _, s := range all {
		if _, there := namespaces[s.namespace]; !there && s.namespace != everything {
			namespaces[s.namespace] = s.at
		}
		if s.name == everything {
			continue
		}
		c.policyOf(s, entries, sources)
	}
	c.rest(entries, sources, namespaces)
}

// policyOf writes the policy of one service.
func (c *Conversion) policyOf(s *service, entries []*service, sources map[*service][]source) {
	list, at := c.about(s, entries, sources), s.at
	if len(list) == 1 && list[0].allowed && len(list[0].permissions) == 0 && list[0].at == (report.Place{}) {
		return // nothing but the default, which allows
	}
	if s.intentions != nil {
		at = s.intentions.At
	}
	policy := &security.AuthorizationPolicy{Selector: &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{appLabel: s.label()}}}
	for i := range list {
		from := &security.Source{Principals: []string{list[i].principal()}}
		for j := range i {
			if list[i].covers(&list[j]) {
				from.NotPrincipals = append(from.NotPrincipals, list[j].principal())
			}
		}
		policy.Rules = append(policy.Rules, c.rules(s, &list[i], from)...)
	}
	c.Add("AuthorizationPolicy", s.namespace, result.Name(s.name)+"-intentions", policy, at)
}

// about are the sources of all intentions about a service, the most exact first, and at the end what Consul does
// otherwise. Of two about the same source the first counts.
func (c *Conversion) about(s *service, entries []*service, sources map[*service][]source) (out []source) {
	var found []source
	for _, e := range entries {
		if (e.namespace == everything || e.namespace == s.namespace) && (e.name == everything || e.name == s.name) {
			found = append(found, sources[e]...)
		}
	}
	slices.SortStableFunc(found, func(a, b source) int {
		return cmp.Or(b.destination-a.destination, exact(b.namespace, b.name)-exact(a.namespace, a.name))
	})
	found = append(found, source{namespace: everything, name: everything, allowed: c.defaults == "allow"})
	for _, f := range found {
		if !slices.ContainsFunc(out, func(o source) bool { return o.covers(&f) }) {
			out = append(out, f)
		}
	}
	return out
}

// sources reads a service-intentions.
func (c *Conversion) sources(s *service) (out []source) {
	for _, o := range s.intentions.Objects("Sources") {
		o.Skip("Precedence", "Description", "Type", "LegacyID", "LegacyMeta", "LegacyCreateTime", "LegacyUpdateTime")
		f := source{namespace: cmp.Or(o.Text("Namespace"), c.namespace), name: o.Text("Name"), at: o.At, destination: exact(s.namespace, s.name)}
		if f.name == everything && !o.Has("Namespace") {
			f.namespace = everything // there is one namespace, or all of it is meant
		}
		action := o.Text("Action")
		for _, p := range o.Objects("Permissions") {
			f.permissions = append(f.permissions, c.permission(p))
		}
		f.allowed = action == "allow"
		if len(f.permissions) > 0 {
			f.allowed = c.defaults == "allow"
		}
		const byHand = "write the AuthorizationPolicy by hand; for tokens, with a RequestAuthentication: docs/request-authentication.md"
		if other := elsewhere(o); other != "" {
			c.Lose(o.At, "it is about a service of the "+other+", whose identities this mesh does not know: it is left out", "let the mesh trust the other one, and write the AuthorizationPolicy: docs/security.md")
			continue
		}
		if why := s.unsaidOf(o, &f); why != "" {
			c.Lose(o.At, why+": the source is refused", byHand)
			o.Settle()
			f.allowed, f.permissions = false, nil
		}
		out = append(out, f)
	}
	if len(s.intentions.Left()) > 0 && len(out) == 0 {
		out = append(out, source{namespace: everything, name: everything, at: s.intentions.At, destination: exact(s.namespace, s.name)}) // nobody knows whom it refuses
	} else if len(out) > 0 {
		s.intentions.Skip("JWT") // each source has told of it
	}
	return out
}

// unsaidOf is what a source of the service's intentions asks for and no policy can; "" if there is nothing.
func (s *service) unsaidOf(o *fields.Object, f *source) string {
	left := o.Left()
	switch {
	case s.intentions.Has("JWT"):
		return "the intentions ask for tokens (JWT), which is not converted"
	case len(left) > 0:
		return "it asks for what is not known here, " + named(o, left)
	case f.namespace == everything && f.name != everything:
		return "it is about the services " + f.name + " of all namespaces, and an identity is of one"
	}
	return ""
}

// elsewhere is where the service of a source is, if it is none of this mesh.
func elsewhere(o *fields.Object) string {
	for _, of := range elsewheres {
		if value := o.Text(of.field); value != "" && (of.field != "Partition" || value != "default") {
			return of.called + " " + value
		}
	}
	return ""
}

// rest refuses for services that nobody has told of what Consul refuses for them.
func (c *Conversion) rest(entries []*service, sources map[*service][]source, namespaces map[string]report.Place) {
	maps.DeleteFunc(namespaces, func(namespace string, _ report.Place) bool {
		all := c.about(&service{key: key{namespace, everything}}, entries, sources)
		return len(all) == 1 && all[0].allowed && len(all[0].permissions) == 0 // everybody is let in
	})
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		c.Add("AuthorizationPolicy", namespace, "consul-default-deny", &security.AuthorizationPolicy{}, namespaces[namespace])
	}
	if len(namespaces) == 0 {
		return
	}
	c.Note(report.Place{}, "consul-default-deny refuses what no intention allows, for all workloads of "+plural(len(namespaces), "namespace"), "look at it with --dry-run before services of others are in the same namespace")
}
