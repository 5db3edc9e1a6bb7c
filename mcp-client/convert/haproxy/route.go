package haproxy

import (
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// write writes the routes of a frontend: for each host that it names, and for all others.
func (f *frontend) write() {
	rules := slices.Concat(f.early, f.late)
	if f.closed {
		rules = []rule{{terms: []term{{}}, at: f.at}}
	} else if f.byAll != nil {
		rules = append(rules, rule{terms: []term{{}}, to: f.byAll, at: f.at})
	}
	then := make([]*gateway.Action, len(rules))
	for i, r := range rules {
		then[i] = f.action(r)
	}
	byScheme := slices.ContainsFunc(rules, func(r rule) bool { return slices.ContainsFunc(r.terms, func(t term) bool { return t.scheme != "" }) })
	for _, scheme := range []string{"http", "https"} {
		var parents []gateway.Parent
		for _, b := range f.binds {
			if !byScheme || b.tls == (scheme == "https") {
				parents = append(parents, gateway.Parent{Name: f.Gateway, SectionName: b.section})
			}
		}
		name := f.section.Name()
		if byScheme {
			name += "-" + scheme
		} else if scheme == "https" {
			break
		}
		for _, r := range f.routes(rules, then, scheme) {
			r.Name, r.Parents, r.From, r.Namespace = result.Name(name+r.Name), parents, f.at, f.Namespace
			f.AddRoute(r)
		}
	}
}

// routes are those for the hosts that rules name, together as far as their rules are alike, and for all
// others.
func (f *frontend) routes(rules []rule, then []*gateway.Action, scheme string) (out []gateway.Route) {
	hosts, others := named(rules), gateway.Route{Rules: rulesFor(rules, then, "", scheme)}
	out = []gateway.Route{others}
	for _, host := range hosts {
		r := gateway.Route{Rules: rulesFor(rules, then, host, scheme), Hostnames: []string{host}, Name: "-" + strings.TrimPrefix(host, "*.")}
		if alike(r, others) && !slices.ContainsFunc(hosts, func(wider string) bool { return wider != host && covers(wider, host) }) {
			continue
		}
		if same := slices.IndexFunc(out[1:], func(o gateway.Route) bool { return alike(o, r) }) + 1; same > 0 {
			out[same].Hostnames = append(out[same].Hostnames, host)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// alike reports whether routes have the same rules.
func alike(a, b gateway.Route) bool {
	return slices.EqualFunc(a.Rules, b.Rules, func(x, y gateway.Rule) bool {
		return x.From == y.From && x.Match.Covers(y.Match) && y.Match.Covers(x.Match)
	})
}

// named are the hosts that rules name.
func named(rules []rule) (out []string) {
	for _, r := range rules {
		for _, t := range r.terms {
			if t.host != "" && !slices.Contains(out, t.host) {
				out = append(out, t.host)
			}
		}
	}
	return out
}

// rulesFor are the rules for requests of a host.
func rulesFor(rules []rule, then []*gateway.Action, host, scheme string) (out []gateway.Rule) {
	for i, r := range rules {
		for _, t := range r.terms {
			if (t.host == "" || covers(t.host, host)) && (t.scheme == "" || t.scheme == scheme) {
				out = append(out, gateway.Rule{Match: t.match, Then: then[i], From: r.at})
			}
		}
	}
	return out
}

// action is what a rule does; nil if its requests are refused.
func (f *frontend) action(r rule) *gateway.Action {
	if r.to == nil {
		return r.then
	}
	f.conversion.use(r.to, "HTTP")
	if !r.to.ok {
		return nil
	}
	return &gateway.Action{Backends: []gateway.Backend{r.to.to}, Filters: merged(f.filters, r.to.filters)}
}

// merged are the filters of a frontend and a backend, each type once.
func merged(front, back []gateway.Filter) (out []gateway.Filter) {
	for _, f := range slices.Concat(front, back) {
		at := slices.IndexFunc(out, func(o gateway.Filter) bool { return o.Type == f.Type })
		switch {
		case at < 0:
			out = append(out, f)
		case f.RequestHeaders != nil:
			out[at].RequestHeaders = joined(out[at].RequestHeaders, f.RequestHeaders)
		case f.ResponseHeaders != nil:
			out[at].ResponseHeaders = joined(out[at].ResponseHeaders, f.ResponseHeaders)
		default:
			out[at] = f
		}
	}
	return out
}

func joined(a, b *gateway.Modifier) *gateway.Modifier {
	set := slices.DeleteFunc(slices.Clone(a.Set), func(h gateway.Header) bool {
		return slices.ContainsFunc(b.Set, func(o gateway.Header) bool { return strings.EqualFold(o.Name, h.Name) })
	})
	return &gateway.Modifier{Set: append(set, b.Set...), Add: slices.Concat(a.Add, b.Add), Remove: slices.Concat(a.Remove, b.Remove)}
}

// connections writes the routes of a frontend that knows no requests.
func (f *frontend) connections() {
	if f.closed {
		return
	}
	var parents []gateway.Parent
	for _, b := range f.binds {
		parents = append(parents, gateway.Parent{Name: f.Gateway, SectionName: b.section})
	}
	byName := false
	for _, r := range f.late {
		f.conversion.use(r.to, "TCP")
		var names []string
		for _, t := range r.terms {
			if t.name != "" {
				names = append(names, t.name)
			}
		}
		if len(names) != len(r.terms) {
			f.Lose(r.at, "connections are told apart by the names of TLS alone: it is left out", "write mode http into the frontend if it is for requests")
			continue
		}
		if byName = true; r.to.ok && len(parents) > 0 {
			f.AddConnections("TLSRoute", f.Namespace, result.Name(f.section.Name()+"-"+names[0]), gateway.Connections{
				Parents: parents, Hostnames: names, Rules: []gateway.ConnectionRule{{Backends: []gateway.Backend{r.to.to}}},
			}, r.at)
		}
	}
	switch {
	case f.byAll == nil || len(parents) == 0:
	case byName:
		f.Lose(f.at, "a TLSRoute has names: connections for other names have no backend", "write a TLSRoute with a name such as *.example.com")
	default:
		if f.conversion.use(f.byAll, "TCP"); f.byAll.ok {
			f.AddConnections("TCPRoute", f.Namespace, result.Name(f.section.Name()), gateway.Connections{
				Parents: parents, Rules: []gateway.ConnectionRule{{Backends: []gateway.Backend{f.byAll.to}}},
			}, f.at)
		}
	}
}
