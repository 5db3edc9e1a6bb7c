package nginx

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/nginxconf"
	"github.com/pgmesh/pgmesh/mcp-client/convert/precedence"
)

// refused says what becomes of requests for which there is no such answer.
const refused = ": its requests are answered with 500"

// answer converts a return for a path, which stands in a scope; nil if it cannot be said.
func (s *server) answer(d *nginxconf.Directive, path precedence.Path, in scope) *gateway.Action {
	code, to := d.Arg(0), d.Arg(1)
	if len(d.Args) == 1 && strings.Contains(code, "://") {
		code, to = "302", code
	}
	status, err := strconv.Atoi(code)
	if err != nil || !slices.Contains([]int{301, 302, 303, 307, 308}, status) || to == "" {
		s.Lose(place(d), fmt.Sprintf("a route does not answer with %s%s", code, refused), "keep a VirtualService with directResponse for it")
		return nil
	}
	out, why := s.redirection(to, path)
	if why != "" {
		s.Lose(place(d), why+refused, "")
		return nil
	}
	out.StatusCode = status
	return s.redirect(out, in)
}

// url divides an address into its scheme, its host and the rest.
var url = regexp.MustCompile(`^(?:(https?|\$scheme)://([^/$]+|\$(?:host|http_host|server_name))(\$request_uri|\$uri|/.*)?|(/.*))$`)

// redirection is where a return leads, or why that cannot be said.
func (s *server) redirection(to string, path precedence.Path) (out *gateway.Redirect, why string) {
	parts := url.FindStringSubmatch(to)
	if parts == nil {
		return nil, fmt.Sprintf("a route cannot say where %s leads", to)
	}
	out = &gateway.Redirect{}
	if parts[1] != "$scheme" {
		out.Scheme = parts[1]
	}
	switch host := parts[2]; host {
	case "", "$host", "$http_host":
	case "$server_name":
		if len(s.names) > 0 {
			out.Hostname = s.names[0]
		}
	default:
		name, number, found := strings.Cut(host, ":")
		if out.Hostname = strings.ToLower(name); found {
			out.Port, _ = strconv.Atoi(number)
		}
	}
	out.Path, why = redirected(parts[3]+parts[4], path)
	return out, why
}

// redirected is the path that a redirection leads to; nil for that of the request.
func redirected(to string, from precedence.Path) (*gateway.Path, string) {
	before, all := strings.CutSuffix(strings.TrimSuffix(to, "$is_args$args"), "$request_uri")
	switch {
	case strings.Contains(before, "$"):
		return nil, fmt.Sprintf("a route cannot say where %s leads", to)
	case all && before == "":
		return nil, ""
	case all && (from.Form == precedence.Beginning || from.Form == precedence.Segments):
		return gateway.PrefixPath(before + strings.TrimSuffix(from.Text, "/")), ""
	case all:
		return nil, fmt.Sprintf("what %s adds to the path can be said for a prefix alone", to)
	case before == "":
		return gateway.FullPath("/"), ""
	}
	return gateway.FullPath(before), ""
}

// rewritten reads a rewrite of a prefix.
func rewritten(d *nginxconf.Directive) (prefix, with string, ok bool) {
	parts := regexp.MustCompile(`^\^(/[^\\.+*?()|\[\]{}^$]*)\(\.\*\)\$?$`).FindStringSubmatch(d.Arg(0))
	with, ends := strings.CutSuffix(d.Arg(1), "$1")
	if parts == nil || !ends || strings.Contains(with, "$") || !strings.HasPrefix(with, "/") || strings.HasSuffix(parts[1], "/") != strings.HasSuffix(with, "/") {
		return "", "", false
	}
	return parts[1], joinable(with), true
}

// joinable is a prefix as one that segments are joined to.
func joinable(path string) string {
	if path = strings.TrimRight(path, "/"); path == "" {
		return "/"
	}
	return path
}

// rule is that of a location.
func (l *location) rule() gateway.Rule {
	rule := gateway.Rule{Match: precedence.Match{Path: l.path}, From: l.at}
	if l.scope.closed {
		return rule
	}
	var passes, rewrites, own *nginxconf.Directive
	for _, d := range l.directive.Block {
		switch {
		case d.Name == "return":
			rule.Then = l.answer(d, l.path, l.scope)
			return rule
		case d.Name == "if":
			l.Lose(place(d), "the condition is not understood, and may refuse requests: those of the location are answered with 500", "remove it, and convert again")
			return rule
		case d.Name == "proxy_pass" || d.Name == "grpc_pass":
			passes = d
		case d.Name == "rewrite":
			rewrites = d
		case files[d.Name] != counterpart{}:
			if own == nil || own.Name == "root" || own.Name == "index" {
				own = d
			}
		default:
			l.other(d)
		}
	}
	if passes == nil {
		l.passesOn(own)
		return rule
	}
	if own != nil && own.Name != "root" && own.Name != "index" {
		l.each.Lose(place(own), files[own.Name].what+": requests are passed on in any case", files[own.Name].instead)
	}
	rule.Then = l.pass(passes, rewrites)
	return rule
}

// passesOn tells that a location passes requests on to nobody, which may be because of a directive of its own.
func (l *location) passesOn(own *nginxconf.Directive) {
	if own == nil {
		l.Lose(l.at, "it passes requests on to nobody"+refused, "write proxy_pass, or "+byProgram)
		return
	}
	l.each.Lose(place(own), files[own.Name].what+refused, files[own.Name].instead)
}

// withoutSlash redirects requests for the location without the slash at its end, as NGINX does where it
// passes requests on and no other location is for that path. It does so before it looks at expressions.
func (l *location) withoutSlash() (rule gateway.Rule, is bool) {
	path, is := strings.CutSuffix(l.path.Text, "/")
	passes := slices.ContainsFunc(l.directive.Block, func(d *nginxconf.Directive) bool { return d.Name == "proxy_pass" || d.Name == "grpc_pass" })
	if !is || !passes || path == "" || l.path.Form == precedence.Regex {
		return rule, false
	}
	return gateway.Rule{
		Match: precedence.Match{Path: precedence.Path{Form: precedence.Exact, Text: path}}, From: l.at,
		Then: l.redirect(&gateway.Redirect{StatusCode: 301, Path: gateway.FullPath(path + "/")}, l.scope),
	}, true
}
