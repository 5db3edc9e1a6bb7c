package gateway

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/convert/precedence"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// Action is what becomes of requests. Without backends and a redirection they are answered with 500.
type Action struct {
	Name     string
	Filters  []Filter
	Backends []Backend
	Timeouts *Timeouts
	Retry    *Retry
}

// replaces reports whether the action replaces the prefix of the path.
func (a *Action) replaces() bool {
	return a != nil && slices.ContainsFunc(a.Filters, func(f Filter) bool { return f.path() != nil && f.path().Prefix != nil })
}

// refuses reports whether the action lets nobody in.
func (a *Action) refuses() bool {
	return a == nil || len(a.Backends) == 0 && !slices.ContainsFunc(a.Filters, func(f Filter) bool { return f.Redirect != nil })
}

func (f Filter) path() *Path {
	switch {
	case f.Redirect != nil:
		return f.Redirect.Path
	case f.Rewrite != nil:
		return f.Rewrite.Path
	}
	return nil
}

// Rule is one match, and what becomes of its requests: they are refused if that is nil.
type Rule struct {
	Match precedence.Match
	Then  *Action
	From  report.Place
}

// Route is what is to become HTTPRoutes. The first of its rules counts that matches.
type Route struct {
	Namespace, Name string
	Parents         []Parent
	Hostnames       []string // any, if there are none
	Rules           []Rule
	From            report.Place

	// TellUnreached has rules told of that no request comes to. Where a rule of the source is one of
	// several routes, it says nothing.
	TellUnreached bool
}

// The bounds of an HTTPRoute.
const (
	maxRules     = 16
	maxMatches   = 8 // of a rule: with 16 rules that is what a route may have
	maxHostnames = 16
)

// AddRoute writes HTTPRoutes that do with each request what the route does.
func (s *Set) AddRoute(r Route) {
	rules := s.ordered(r)
	if len(rules) == 0 || len(r.Parents) == 0 {
		return
	}
	for _, rule := range rules {
		s.grant(r, rule)
	}
	part := 0
	hostnames := slices.Collect(slices.Chunk(r.Hostnames, maxHostnames))
	if len(hostnames) == 0 {
		hostnames = [][]string{nil}
	}
	for _, hosts := range hostnames {
		for some := range slices.Chunk(rules, maxRules) {
			name := r.Name
			if part++; part > 1 {
				name = fmt.Sprintf("%s-%03d", r.Name, part) // of equals the name decides, which keeps their order
			}
			s.Add("HTTPRoute", r.Namespace, name, routeSpec{r.Parents, hosts, some}, r.From)
		}
	}
}

// grant has other namespaces allow the rule's backends.
func (s *Set) grant(r Route, rule ruleSpec) {
	if !slices.ContainsFunc(r.Parents, func(p Parent) bool { return p.Kind == "" }) {
		return // sidecars ask for no grant
	}
	backends := slices.Clone(rule.Backends)
	for _, f := range rule.Filters {
		if f.Mirror != nil {
			backends = append(backends, f.Mirror.Backend)
		}
	}
	for _, b := range backends {
		s.grantBackend("HTTPRoute", r.Namespace, b)
	}
}

func (s *Set) grantBackend(kind, namespace string, b Backend) {
	if b.Kind == "" {
		s.allow(grant{b.Namespace, "Service", namespace, kind})
	}
}

// AddConnections writes a TLSRoute or a TCPRoute.
func (s *Set) AddConnections(kind, namespace, name string, spec Connections, from report.Place) {
	for _, b := range spec.Rules[0].Backends {
		s.grantBackend(kind, namespace, b)
	}
	s.Add(kind, namespace, name, spec, from)
}

// ordered puts the rules in the order of the Gateway API, and tells what came of that.
func (s *Set) ordered(r Route) []ruleSpec {
	rules := make([]precedence.Rule, len(r.Rules))
	for i, rule := range r.Rules {
		rules[i] = precedence.Rule{Match: rule.Match, To: i, Replaces: rule.Then.replaces(), Refuses: rule.Then.refuses()}
	}
	order, err := precedence.Of(rules)
	if err != nil {
		s.Lose(r.From, err.Error()+": the whole route is left out", "divide it, or let its rules overlap less")
		return nil
	}
	for _, i := range order.Unreached {
		if !r.TellUnreached {
			break
		}
		s.Note(r.Rules[i].From, "no request comes to it, since those before have all of its requests: it is left out", "")
	}
	for _, i := range order.Refused {
		s.Lose(r.Rules[i].From, "it replaces a prefix and comes after a rule that refuses requests which may be the same: its requests are answered with 500",
			"put it before, or give it a path that the other does not match")
	}
	for _, i := range order.Ahead {
		s.Lose(r.Rules[i].From, "it replaces a prefix, and so nothing can come before it but for the same or a longer prefix: it also answers requests that a rule before it had, by a regular expression or by headers",
			"give it a path that the other does not match")
	}
	for _, i := range order.Beyond {
		s.Lose(r.Rules[i].From, "the Gateway API replaces prefixes of whole segments alone: requests whose path goes on within the segment, or ends before its slash, are answered with 500",
			"usually there are none")
	}
	return s.valid(grouped(order.Rules, r.Rules))
}

// group is rules of one action, as one.
type group struct {
	ruleSpec

	from report.Place
}

// valid keeps what the Gateway API takes. A rule whose matches it does not take is left out, and one
// that does what it does not take answers with 500.
func (s *Set) valid(groups []group) (out []ruleSpec) {
	for _, g := range groups {
		if why := wrong(ruleSpec{Matches: g.Matches}); why != "" {
			s.Lose(g.from, "requests cannot be matched so in the Gateway API ("+why+"): the rule is left out, and its requests are answered by the rules after it", "")
			continue
		}
		if why := wrong(g.ruleSpec); why != "" {
			s.Lose(g.from, "the Gateway API cannot say this ("+why+"): the rule's requests are answered with 500", "write the rule by hand")
			g.ruleSpec = ruleSpec{Matches: g.Matches}
		}
		out = append(out, g.ruleSpec)
	}
	return named(out)
}

// wrong is what is not valid of a rule.
func wrong(rule ruleSpec) string {
	wrong := result.Wrong("HTTPRoute", "default", routeSpec{[]Parent{{Name: "gateway"}}, nil, []ruleSpec{rule}})
	if len(wrong) == 0 {
		return ""
	}
	return strings.TrimPrefix(wrong[0].Path, "spec.rules[0].") + ": " + wrong[0].Reason
}

// grouped writes rules that follow each other and do the same as one.
func grouped(placed []precedence.Placed, rules []Rule) (out []group) {
	last := -2
	for _, p := range placed {
		var then *Action
		var from report.Place
		if p.To != precedence.Nowhere {
			then, from = rules[p.To].Then, rules[p.To].From
		}
		if len(out) > 0 && !then.replaces() && len(out[len(out)-1].Matches) < maxMatches && sameAction(last, p.To, rules) {
			out[len(out)-1].Matches = append(out[len(out)-1].Matches, matchOf(p))
			continue
		}
		out = append(out, group{then.rule(matchOf(p), p), from})
		last = p.To
	}
	return out
}

func sameAction(a, b int, rules []Rule) bool {
	return a == b || a >= 0 && b >= 0 && rules[a].Then == rules[b].Then
}

// named keeps the names of rules apart: only one may have a name.
func named(rules []ruleSpec) []ruleSpec {
	seen := map[string]bool{}
	for i := range rules {
		if seen[rules[i].Name] {
			rules[i].Name = ""
		}
		seen[rules[i].Name] = true
	}
	return rules
}

func (a *Action) rule(match matchSpec, p precedence.Placed) ruleSpec {
	out := ruleSpec{Matches: []matchSpec{match}}
	if a == nil {
		return out
	}
	out.Name, out.Backends, out.Timeouts, out.Retry = a.Name, a.Backends, a.Timeouts, a.Retry
	for _, f := range a.Filters {
		out.Filters = append(out.Filters, f.at(p))
	}
	return out
}

// at is the filter for a match that is narrower than the prefix that is replaced.
func (f Filter) at(p precedence.Placed) Filter {
	path := f.path()
	if path == nil || path.Prefix == nil || p.Tail == "" && p.Type == precedence.TypePrefix {
		return f
	}
	with := joined(*path.Prefix, p.Tail)
	path = PrefixPath(with)
	if p.Type == precedence.TypeExact {
		path = FullPath(with)
	}
	if f.Redirect != nil {
		changed := *f.Redirect
		changed.Path, f.Redirect = path, &changed
	} else {
		changed := *f.Rewrite
		changed.Path, f.Rewrite = path, &changed
	}
	return f
}

// joined is a path after what replaces its prefix.
func joined(prefix, tail string) string {
	for len(prefix) > 0 && prefix[len(prefix)-1] == '/' {
		prefix = prefix[:len(prefix)-1]
	}
	if prefix+tail == "" {
		return "/"
	}
	return prefix + tail
}

func matchOf(p precedence.Placed) matchSpec {
	out := matchSpec{Method: p.Match.Method}
	if p.Type != precedence.TypePrefix || p.Value != "/" {
		out.Path = &pathSpec{p.Type, p.Value}
	}
	out.Headers, out.Params = values(p.Match.Headers), values(p.Match.Params)
	if out.Path == nil && len(out.Headers)+len(out.Params) == 0 && out.Method == "" {
		out.Path = &pathSpec{p.Type, p.Value} // for readers: a match of nothing looks like a mistake
	}
	return out
}

func values(in []precedence.Value) (out []valueSpec) {
	for _, v := range in {
		spec := valueSpec{Name: v.Name, Value: v.Text}
		if v.Regex {
			spec.Type = precedence.TypeRegex
		}
		out = append(out, spec)
	}
	return out
}
