package consul

import (
	"fmt"
	"slices"
	"strings"

	security "istio.io/api/security/v1beta1"

	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
)

// permission is what a source may do, or may not: requests that meet all conditions.
type permission struct {
	allow      bool
	conditions []condition
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

// permission reads one, and tells what of it cannot be said.
func (c *Conversion) permission(o *fields.Object) permission {
	p := permission{allow: o.Text("Action") == "allow"}
	h := o.Object("HTTP")
	var beyond []string
	add := func(name string, one condition, said bool) {
		if said {
			p.conditions = append(p.conditions, one)
		} else {
			beyond = append(beyond, name)
		}
	}
	exact, prefix, methods := h.Text("PathExact"), h.Text("PathPrefix"), h.Texts("Methods")
	if exact != "" {
		add("HTTP.PathExact", condition{of: "path", values: []string{exact}}, !strange(exact))
	}
	if prefix != "" && prefix != "/" {
		add("HTTP.PathPrefix", condition{of: "path", values: []string{prefix + "*"}}, !strange(prefix) && exact == "")
	}
	if len(methods) > 0 {
		add("HTTP.Methods", condition{of: "method", values: methods}, !slices.ContainsFunc(methods, strange))
	}
	for _, header := range h.Objects("Header") {
		one, said := headerOf(header)
		add("HTTP.Header "+header.Text("Name"), one, said)
		if !said {
			header.Settle()
		}
	}
	if unread := o.Unread(); len(unread) > 0 {
		beyond = append(beyond, named(o, unread))
	}
	if p.unsaid = len(beyond) > 0; p.unsaid {
		c.tellUnsaid(o, p.allow, strings.Join(beyond, ", "))
	}
	return p
}

// tellUnsaid tells what becomes of a permission of which some conditions cannot be said.
func (c *Conversion) tellUnsaid(o *fields.Object, allow bool, conditions string) {
	becomes := "more is refused than the permission denies"
	if allow {
		becomes = "what the permission allows is refused, unless a later one allows it"
	}
	c.Lose(o.At, "no policy can ask for "+conditions+": "+becomes, "write the AuthorizationPolicy by hand")
	o.Settle()
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
		c.Lose(f.at, fmt.Sprintf("its permissions are about requests, and nothing says that %s speaks HTTP: the source is refused", s.name), "say in its service-defaults what it speaks, or in proxy-defaults what all do")
		return nil
	}
	before := [][]condition{nil} // each is one way of not being denied so far
	for _, p := range append(slices.Clone(f.permissions), permission{allow: f.allowed}) {
		switch {
		case p.allow && p.unsaid: // what it allows is refused
		case p.allow:
			for _, way := range before {
				out = append(out, rule(whom, append(slices.Clone(way), p.conditions...)))
			}
		default: // of one that is not said whole, more is denied
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
