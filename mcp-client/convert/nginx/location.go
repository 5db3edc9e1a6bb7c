package nginx

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/nginxconf"
	"github.com/pgmesh/pgmesh/mcp-client/convert/precedence"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// location is a location on its way.
type location struct {
	*server

	directive *nginxconf.Directive
	scope     scope
	path      precedence.Path
	last      bool // no expression is tried after it (^~)
	early     bool // it comes before one of these
	at        report.Place
}

// rules are those of a server for some requests, in the order in which NGINX looks at them.
func (s *server) rules(r request, conditions conditions) (out []gateway.Rule) {
	if conditions.unknown {
		return []gateway.Rule{{From: s.at}}
	}
	for _, d := range s.directive.Block {
		switch d.Name {
		case "if":
			if c, _ := conditionOf(d); c.holds(r) {
				return append(out, gateway.Rule{Then: s.answer(c.then, precedence.Path{}, s.scope), From: place(d)})
			}
		case "return":
			return append(out, gateway.Rule{Then: s.answer(d, precedence.Path{}, s.scope), From: place(d)})
		case "rewrite":
			out = append(out, s.rewriteAll(d))
		}
	}
	if s.scope.closed && !slices.ContainsFunc(s.directive.Block, func(d *nginxconf.Directive) bool { return d.Name == "location" }) {
		return append(out, gateway.Rule{From: s.at})
	}
	locations := inOrder(s.locations())
	if s.refuses {
		return []gateway.Rule{{From: s.at}}
	}
	exact := 0
	for ; exact < len(locations) && locations[exact].path.Form == precedence.Exact; exact++ {
		out = append(out, locations[exact].rule())
	}
	for _, l := range locations {
		if rule, is := l.withoutSlash(); is && !slices.ContainsFunc(locations, func(o *location) bool { return o.path.Text == rule.Match.Path.Text }) {
			out = append(out, rule)
		}
	}
	for _, l := range locations[exact:] {
		out = append(out, l.rule())
	}
	return out
}

// rewriteAll converts a rewrite of a server, which is looked at before its locations.
func (s *server) rewriteAll(d *nginxconf.Directive) gateway.Rule {
	at := place(d)
	prefix, with, ok := rewritten(d)
	code := map[string]int{"permanent": 301, "redirect": 302}[d.Arg(2)]
	if !ok || code == 0 {
		s.Lose(at, "only a rewrite of ^/prefix/(.*)$ to /other/$1 with permanent or redirect can be said: requests that it matches are answered with 500", "write it as a location")
		return gateway.Rule{Match: precedence.Match{Path: precedence.Anywhere(d.Arg(0))}, From: at}
	}
	return gateway.Rule{
		Match: precedence.Match{Path: precedence.Path{Form: precedence.Beginning, Text: prefix}}, From: at,
		Then: s.redirect(&gateway.Redirect{StatusCode: code, Path: gateway.PrefixPath(with)}, s.scope),
	}
}

func (s *server) redirect(to *gateway.Redirect, in scope) *gateway.Action {
	a := &gateway.Action{Filters: []gateway.Filter{{Type: "RequestRedirect", Redirect: to}}}
	s.addHeaders(a, in)
	return a
}

// locations are those of the server. Blocks within them are told of, and answer nothing.
func (s *server) locations() (out []*location) {
	for _, d := range s.directive.Block {
		if d.Name == "location" {
			out = append(out, s.location(d, s.scope)...)
		}
	}
	s.keepApart(out)
	return out
}

func (s *server) location(d *nginxconf.Directive, around scope) (out []*location) {
	l := &location{server: s, directive: d, at: place(d)}
	l.scope = around.within(s.conversion, d.Block)
	if strings.HasPrefix(d.Arg(0), "@") {
		s.Lose(l.at, "a location with a name is for what NGINX passes on itself: it is left out", "")
		return nil
	}
	text := d.Arg(1)
	switch modifier := d.Arg(0); modifier {
	case "=":
		l.path = precedence.Path{Form: precedence.Exact, Text: text}
	case "^~":
		l.path, l.last = precedence.Path{Form: precedence.Beginning, Text: text}, true
	case "~":
		l.path = precedence.Anywhere(text)
	case "~*":
		l.path = precedence.Anywhere("(?i)" + text)
	default:
		l.path = precedence.Path{Form: precedence.Beginning, Text: modifier}
	}
	if _, err := regexp.Compile(l.path.Text); l.path.Form == precedence.Regex && err != nil {
		if l.scope.closed && !around.closed {
			s.Lose(l.at, "Envoy has no such regular expression, and the location may refuse requests: all of the server are answered with 500", "write one without looking ahead or behind, or back")
			s.refuses = true
			return nil
		}
		s.Lose(l.at, "Envoy has no such regular expression: the location is left out, and its requests are answered by the locations after it", "write one without looking ahead or behind, or back")
		return nil
	}
	if l.path.Form == precedence.Beginning && !l.path.Any() && s.WholeSegments {
		if !strings.HasSuffix(l.path.Text, "/") {
			s.Lose(l.at, "the prefix is taken for one of whole segments: it matches no path that goes on within the segment, such as "+l.path.Text+"x", "")
		}
		l.path.Form = precedence.Segments
	}
	out = append(out, l)
	for _, inner := range d.Block {
		if inner.Name == "location" {
			for _, nested := range s.location(inner, l.scope) {
				s.Lose(nested.at, "locations within locations are not converted: its requests are answered with 500", "write it beside the other")
				nested.scope.closed = true
				out = append(out, nested)
			}
		}
	}
	return out
}

// keepApart looks after prefixes within one after which no expression is tried: they come before it,
// and expressions are tried for them.
func (s *server) keepApart(all []*location) {
	tried := slices.ContainsFunc(all, func(l *location) bool { return l.path.Form == precedence.Regex })
	for _, l := range all {
		if l.last || l.path.Form == precedence.Exact || l.path.Form == precedence.Regex {
			continue
		}
		for _, outer := range all {
			if !outer.last || !strings.HasPrefix(l.path.Text, outer.path.Text) {
				continue
			}
			l.early = true
			if tried {
				s.Lose(l.at, "it is within a location of ^~, and regular expressions are tried for it alone: its requests are answered with 500", "write ^~ for it, too")
				l.scope.closed = true
			}
		}
	}
}

// inOrder sorts locations as NGINX looks at them, so that the first that matches counts: exact ones,
// the longest prefix if no expression is to be tried after it, expressions as they are written, and the
// longest prefix.
func inOrder(all []*location) []*location {
	rank := func(l *location) int {
		switch {
		case l.path.Form == precedence.Exact:
			return 0
		case l.last || l.early:
			return 1
		case l.path.Form == precedence.Regex:
			return 2
		}
		return 3
	}
	return slices.SortedStableFunc(slices.Values(all), func(a, b *location) int {
		if rank(a) == 2 && rank(b) == 2 {
			return 0
		}
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(len(b.path.Text), len(a.path.Text)))
	})
}
