package nginx

import (
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/convert/nginxconf"
)

// request is what is known of requests before their path.
type request struct{ host, scheme string }

// condition is an if of a server that asks for the host or the scheme, and returns.
type condition struct {
	variable, is string
	then         *nginxconf.Directive
}

// holds reports whether a condition is so for requests. Which hosts those of no name have is not
// known, but it is not that of a name.
func (c condition) holds(r request) bool {
	if c.variable == "$scheme" {
		return r.scheme == c.is
	}
	return r.host == c.is
}

// conditions are the ifs of a server.
type conditions struct {
	all     []condition
	unknown bool // there is one that is not understood, which may refuse requests
}

// conditions reads what can be read of the ifs of a server.
func (s *server) conditions() (out conditions) {
	for _, d := range s.directive.Block {
		if d.Name != "if" {
			continue
		}
		c, ok := conditionOf(d)
		if !ok {
			s.Lose(place(d), "the condition is not understood, and may refuse requests: all of the server are answered with 500", "write what it does as locations, or remove it and convert again")
			out.unknown = true
			continue
		}
		out.all = append(out.all, c)
	}
	return out
}

func conditionOf(d *nginxconf.Directive) (c condition, ok bool) {
	words := strings.Fields(strings.Trim(strings.Join(d.Args, " "), "()"))
	if len(words) != 3 || words[1] != "=" || len(d.Block) != 1 || d.Block[0].Name != "return" {
		return c, false
	}
	c = condition{words[0], strings.Trim(words[2], `"'`), d.Block[0]}
	return c, slices.Contains([]string{"$host", "$http_host", "$scheme"}, c.variable)
}

// divided are names, together as far as the conditions treat them alike.
func (c conditions) divided(names []string) (out [][]string) {
	var rest []string
	for _, name := range names {
		if slices.ContainsFunc(c.all, func(one condition) bool { return one.variable != "$scheme" && one.is == name }) {
			out = append(out, []string{name})
		} else {
			rest = append(rest, name)
		}
	}
	if len(rest) > 0 {
		out = append(out, rest)
	}
	return out
}
