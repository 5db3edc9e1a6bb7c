package consul

import (
	"slices"
	"strings"

	security "istio.io/api/security/v1beta1"

	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
)

// permission is what a source may do, or may not: requests that meet all conditions.
type permission struct {
	allow      bool
	conditions []condition
	at         *fields.Object
	unsaid     bool // there are conditions beyond these
}

// condition is one on a request: on its path, its method, or a header.
type condition struct {
	of     string // "path", "method", or the name of a header in the form request.headers[NAME]
	values []string
	not    bool
}

func (c condition) opposite() condition {
	c.not = !c.not
	return c
}

// permission reads one.
func (c *Conversion) permission(o *fields.Object) permission {
	p := permission{allow: o.Text("Action") == "allow", at: o}
	h := o.Object("HTTP")
	add := func(one condition, said bool) {
		if said {
			p.conditions = append(p.conditions, one)
		}
		p.unsaid = p.unsaid || !said
	}
	exact, prefix, methods := h.Text("PathExact"), h.Text("PathPrefix"), h.Texts("Methods")
	if exact != "" {
		add(condition{of: "path", values: []string{exact}}, !strange(exact))
	}
	if prefix != "" && prefix != "/" {
		add(condition{of: "path", values: []string{prefix + "*"}}, !strange(prefix) && exact == "")
	}
	if len(methods) > 0 {
		add(condition{of: "method", values: methods}, !slices.ContainsFunc(methods, strange))
	}
	for _, header := range h.Objects("Header") {
		add(headerOf(header))
	}
	p.unsaid = p.unsaid || len(o.Unread()) > 0
	return p
}

// strange reports whether a value has a sign that means something in a policy, or nothing at all.
func strange(value string) bool { return value == "" || strings.ContainsAny(value, "*{}") }

// headerOf is a condition on a header, if policies have it.
func headerOf(o *fields.Object) (condition, bool) {
	name := o.Text("Name")
	out := condition{of: "request.headers[" + name + "]", not: o.Yes("Invert")}
	exact, prefix, suffix := o.Text("Exact"), o.Text("Prefix"), o.Text("Suffix")
	switch {
	case o.Yes("Present"):
		out.values = []string{"*"}
	case exact != "":
		out.values = []string{exact}
	case prefix != "":
		out.values = []string{prefix + "*"}
	case suffix != "":
		out.values = []string{"*" + suffix}
	}
	return out, len(out.values) > 0 && (out.values[0] == "*" || !strange(exact+prefix+suffix)) && len(o.Unread()) == 0 && name != "" && !strings.ContainsAny(name, "[]")
}

// mostRules bounds how many rules become of one source.
const mostRules = 50

// rules are those by which a source may ask. Permissions are tried in their order, so one that allows counts
// without what earlier ones deny.
func (c *Conversion) rules(s *service, f *source, from *security.Source) (out []*security.Rule) {
	whom := []*security.Rule_From{{Source: from}}
	if len(f.permissions) == 0 {
		if f.allowed {
			out = append(out, &security.Rule{From: whom})
		}
		return out
	}
	if !c.http(s) {
		c.Lose(f.at, "it is about requests, and "+s.name+" is asked by connections: the source is refused, as in Consul", "say in service-defaults what the service speaks")
		return nil
	}
	before := [][]condition{nil} // each is one way of not being denied so far
	for _, p := range append(slices.Clone(f.permissions), permission{allow: f.allowed, at: nil}) {
		switch {
		case p.allow && p.unsaid:
			c.Lose(p.at.At, "not all of its conditions can be said: what it allows is refused, unless a later permission allows it", "write the AuthorizationPolicy by hand")
		case p.allow:
			for _, way := range before {
				out = append(out, rule(whom, append(slices.Clone(way), p.conditions...)))
			}
		case p.unsaid:
			c.Lose(p.at.At, "not all of its conditions can be said: more is refused than it denies", "write the AuthorizationPolicy by hand")
			before = without(before, p)
		default:
			before = without(before, p)
		}
		if len(before) > mostRules || len(out) > mostRules {
			c.Lose(f.at, "its permissions come to too many rules: the source is refused", "write the AuthorizationPolicy by hand")
			return nil
		}
	}
	return out
}

// without are the ways in which a request is not what a permission denies either.
func without(before [][]condition, p permission) (out [][]condition) {
	for _, way := range before {
		for _, one := range p.conditions {
			out = append(out, append(slices.Clone(way), one.opposite()))
		}
	}
	return out
}

// rule has all conditions.
func rule(from []*security.Rule_From, all []condition) *security.Rule {
	out, to := &security.Rule{From: from}, &security.Operation{}
	for _, one := range all {
		var into *[]string
		switch {
		case one.of == "path" && !one.not:
			into = &to.Paths
		case one.of == "path":
			into = &to.NotPaths
		case one.of == "method" && !one.not:
			into = &to.Methods
		case one.of == "method":
			into = &to.NotMethods
		case one.not:
			out.When = append(out.When, &security.Condition{Key: one.of, NotValues: one.values})
			continue
		default:
			out.When = append(out.When, &security.Condition{Key: one.of, Values: one.values})
			continue
		}
		*into = append(*into, one.values...)
	}
	if len(to.GetPaths())+len(to.GetNotPaths())+len(to.GetMethods())+len(to.GetNotMethods()) > 0 {
		out.To = []*security.Rule_To{{Operation: to}}
	}
	return out
}
