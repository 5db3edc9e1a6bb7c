package istio

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/mcp-client/convert/precedence"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// matched is a match of a rule, and whom it is for.
type matched struct {
	match    precedence.Match
	gateways []string // all, if there are none
	port     uint32   // any, if it is 0
	at       report.Place
}

func (m matched) isFor(t target) bool {
	return (len(m.gateways) == 0 || slices.Contains(m.gateways, t.gateway)) && (m.port == 0 || m.port == t.port)
}

// read reads the matches of a rule: one that is for any request, if it has none.
func (v *virtualService) read(r *networking.HTTPRoute, at report.Place) (out []matched) {
	if len(r.GetMatch()) == 0 {
		return []matched{{at: at}}
	}
	for i, m := range r.GetMatch() {
		at := at.In("match[%d]", i)
		field := unsaid(m)
		if field != "" && r.GetDirectResponse().GetStatus() >= 400 {
			v.Lose(at.In("%s", field), "routes of the Gateway API have no such match: all requests are answered with 500 that are otherwise like this, so that nobody is let in", "write an AuthorizationPolicy in its place")
			m = proto.CloneOf(m)
			m.WithoutHeaders, m.SourceLabels, m.SourceNamespace, m.Scheme, m.Authority = nil, nil, "", nil, nil
			if methods(m.GetMethod()) == nil {
				m.Method = nil
			}
		} else if field != "" {
			v.Lose(at.In("%s", field), "routes of the Gateway API have no such match: it is left out, and its requests are answered by the rules after it", "")
			continue
		}
		out = append(out, v.matched(m, at)...)
	}
	return out
}

// unsaid is a field by which the Gateway API cannot match.
func unsaid(m *networking.HTTPMatchRequest) string {
	switch {
	case len(m.GetWithoutHeaders()) > 0:
		return "withoutHeaders"
	case len(m.GetSourceLabels()) > 0:
		return "sourceLabels"
	case m.GetSourceNamespace() != "":
		return "sourceNamespace"
	case m.GetScheme() != nil:
		return "scheme"
	case m.GetAuthority() != nil:
		return "authority"
	case m.GetMethod() != nil && methods(m.GetMethod()) == nil:
		return "method"
	}
	return ""
}

// methods are those that are matched: several, if they are an expression of alternatives.
func methods(m *networking.StringMatch) []string {
	if m.GetExact() != "" {
		return []string{m.GetExact()}
	}
	text := strings.TrimSuffix(strings.TrimPrefix(m.GetRegex(), "("), ")")
	if !regexp.MustCompile(`^[A-Z]+(\|[A-Z]+)*$`).MatchString(text) {
		return nil
	}
	return strings.Split(text, "|")
}

func (v *virtualService) matched(m *networking.HTTPMatchRequest, at report.Place) (out []matched) {
	if m.GetStatPrefix() != "" {
		v.Lose(at.In("statPrefix"), "routes of the Gateway API have no metrics of their own", "")
	}
	one := matched{port: m.GetPort(), at: at}
	for _, name := range m.GetGateways() {
		one.gateways = append(one.gateways, fullGateway(name, v.namespace))
	}
	one.match = precedence.Match{Path: v.path(m, at), Headers: values(m.GetHeaders()), Params: values(m.GetQueryParams())}
	if m.GetMethod() == nil {
		return []matched{one}
	}
	for _, method := range methods(m.GetMethod()) {
		one.match.Method = method
		out = append(out, one)
	}
	return out
}

// path reads the match of a path. A prefix of a VirtualService may end within a segment.
func (v *virtualService) path(m *networking.HTTPMatchRequest, at report.Place) precedence.Path {
	p := precedence.Path{}
	switch uri := m.GetUri().GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		p = precedence.Path{Form: precedence.Exact, Text: uri.Exact}
	case *networking.StringMatch_Prefix:
		p = precedence.Path{Form: precedence.Beginning, Text: uri.Prefix}
	case *networking.StringMatch_Regex:
		return regex(uri.Regex, m.GetIgnoreUriCase())
	default:
		return p
	}
	switch {
	case p.Any():
	case m.GetIgnoreUriCase():
		tail := map[precedence.Form]string{precedence.Beginning: ".*"}[p.Form]
		return precedence.Path{Form: precedence.Regex, Text: "(?i)" + regexp.QuoteMeta(p.Text) + tail}
	case p.Form == precedence.Beginning && v.WholeSegments:
		v.Lose(at.In("uri.prefix"), "the prefix is taken for one of whole segments: it matches no path that goes on within the segment, such as "+p.Text+"x", "")
		p.Form = precedence.Segments
	}
	return p
}

// regex is a match by an expression; any, if every path has it.
func regex(text string, fold bool) precedence.Path {
	if text == ".*" || text == "/.*" {
		return precedence.Path{}
	}
	if fold {
		text = "(?i)" + text
	}
	return precedence.Path{Form: precedence.Regex, Text: text}
}

// values are matches of headers or parameters, in the order of their names.
func values(in map[string]*networking.StringMatch) (out []precedence.Value) {
	for _, name := range slices.Sorted(maps.Keys(in)) {
		v := precedence.Value{Name: name, Regex: true, Text: ".*"}
		switch m := in[name].GetMatchType().(type) {
		case *networking.StringMatch_Exact:
			v.Regex, v.Text = false, m.Exact
		case *networking.StringMatch_Prefix:
			v.Text = regexp.QuoteMeta(m.Prefix) + ".*"
		case *networking.StringMatch_Regex:
			if m.Regex != "*" {
				v.Text = m.Regex
			}
		}
		out = append(out, v)
	}
	return out
}
