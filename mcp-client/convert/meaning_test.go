package convert_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert"
)

// request is what a source and what it became decide about.
type request struct {
	host, path, method string
	headers            map[string]string
}

// routes are what a result comes to in discovery, which translates it: the rules for each host of each
// listener, as those of a VirtualService.
type routes struct {
	gateways map[kinds.Key]*gatewayapi.Gateway
	rules    map[string]map[string][]*networking.HTTPRoute // by listener and host
}

func routesOf(t *testing.T, documents []*kinds.Document) *routes {
	t.Helper()
	out := &routes{gateways: map[kinds.Key]*gatewayapi.Gateway{}, rules: map[string]map[string][]*networking.HTTPRoute{}}
	var grants []*kinds.Resource
	for i, d := range documents {
		d.Resource.CreateTime = time.Unix(int64(i), 0)
		if d.Resource.Kind == gatewayapi.KindReferenceGrant {
			grants = append(grants, d.Resource)
		}
	}
	known := gatewayapi.ReadGrants(slices.Values(grants))
	for _, d := range documents {
		if d.Resource.Kind == gatewayapi.KindGateway {
			out.gateways[d.Resource.Key()] = gatewayapi.ReadGateway(d.Resource, nil, gatewayapi.ReadClasses(slices.Values([]*kinds.Resource(nil))), known)
		}
	}
	pieces := map[gatewayapi.Key][]*gatewayapi.Piece{}
	world := gatewayapi.World{Grants: known, Hosts: func(kinds.Key) []string { return nil }, Known: func(string) bool { return true }}
	for _, d := range documents {
		if d.Resource.Kind != gatewayapi.KindHTTPRoute {
			continue
		}
		attached := gatewayapi.ReadRoute(d.Resource).Attach(func(key kinds.Key) []*gatewayapi.Listener {
			if g := out.gateways[key]; g != nil {
				return g.Listeners
			}
			return nil
		}, world)
		for _, p := range attached.Pieces {
			pieces[p.Key] = append(pieces[p.Key], p)
		}
	}
	for key, all := range pieces {
		if out.rules[key.Gateway] == nil {
			out.rules[key.Gateway] = map[string][]*networking.HTTPRoute{}
		}
		spec := gatewayapi.Merge(all).Resource.Spec.Message().(*networking.VirtualService)
		out.rules[key.Gateway][key.Host] = spec.GetHttp()
	}
	return out
}

// narrowest is the pattern that is the narrowest one for a host.
func narrowest(patterns []string, host string) (best string, found bool) {
	for _, p := range patterns {
		rest, wild := strings.CutPrefix(p, "*")
		if p == host || wild && strings.HasSuffix(host, rest) {
			if !found || len(p) > len(best) || !wild {
				best, found = p, true
			}
		}
	}
	return best, found
}

// answer is what becomes of a request that comes to a port.
func (r *routes) answer(port uint32, q request) string {
	var names []string
	for _, g := range r.gateways {
		for _, l := range g.Listeners {
			server := l.Resource.Spec.Message().(*networking.Gateway).GetServers()[0]
			_, host, _ := strings.Cut(server.GetHosts()[0], "/")
			if _, is := narrowest([]string{host}, q.host); server.GetPort().GetNumber() == port && is {
				names = append(names, fmt.Sprintf("%03d %s", len(strings.TrimPrefix(host, "*")), l.Name()))
			}
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "404"
	}
	hosts := r.rules[names[len(names)-1][4:]]
	host, found := narrowest(slices.Sorted(maps.Keys(hosts)), q.host)
	if !found {
		return "404"
	}
	return answered(hosts[host], q, true)
}

// answered is what the first rule does that matches.
func answered(rules []*networking.HTTPRoute, q request, segments bool) string {
	for _, r := range rules {
		matches := r.GetMatch()
		if len(matches) == 0 {
			matches = []*networking.HTTPMatchRequest{{}}
		}
		for _, m := range matches {
			if rest, is := matched(m, q, segments); is {
				return done(r, m, q, rest)
			}
		}
	}
	return "404"
}

// matched reports whether a request is matched, and what its path has after a prefix.
func matched(m *networking.HTTPMatchRequest, q request, segments bool) (rest string, is bool) {
	switch uri := m.GetUri().GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		is = q.path == uri.Exact
	case *networking.StringMatch_Prefix:
		rest, is = strings.CutPrefix(q.path, uri.Prefix)
		if segments && uri.Prefix != "/" {
			is = is && (rest == "" || rest[0] == '/')
		}
	case *networking.StringMatch_Regex:
		is = whole(uri.Regex, q.path)
	default:
		rest, is = strings.TrimPrefix(q.path, "/"), true
	}
	is = is && (m.GetMethod() == nil || text(m.GetMethod(), q.method))
	for name, want := range m.GetHeaders() {
		got, has := q.headers[strings.ToLower(name)]
		is = is && has && text(want, got)
	}
	return rest, is
}

func text(want *networking.StringMatch, got string) bool {
	switch m := want.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		return got == m.Exact
	case *networking.StringMatch_Prefix:
		return strings.HasPrefix(got, m.Prefix)
	case *networking.StringMatch_Regex:
		return whole(m.Regex, got)
	}
	return true
}

var compiled sync.Map

func whole(expression, s string) bool {
	is, known := compiled.Load(expression)
	if !known {
		is, _ = compiled.LoadOrStore(expression, regexp.MustCompile("^(?:"+expression+")$"))
	}
	return is.(*regexp.Regexp).MatchString(s)
}

// done is what a rule does with a request, in words.
func done(r *networking.HTTPRoute, m *networking.HTTPMatchRequest, q request, rest string) string {
	path := q.path
	replaced := func(with string) string {
		if m.GetUri().GetExact() != "" || m.GetUri().GetRegex() != "" {
			return with
		}
		if prefix := m.GetUri().GetPrefix(); rest == "" && prefix != "" && prefix != "/" {
			return with
		}
		return strings.TrimSuffix(with, "/") + "/" + strings.TrimPrefix(rest, "/")
	}
	if to := r.GetRedirect(); to != nil {
		switch {
		case to.GetPrefixRewrite() != "":
			path = replaced(to.GetPrefixRewrite())
		case to.GetUri() != "":
			path = to.GetUri()
		}
		return fmt.Sprintf("%d %s %s %s", cmp.Or(to.GetRedirectCode(), 301), to.GetScheme(), cmp.Or(to.GetAuthority(), q.host), path)
	}
	if r.GetDirectResponse() != nil {
		return fmt.Sprint(r.GetDirectResponse().GetStatus())
	}
	host := q.host
	if to := r.GetRewrite(); to != nil {
		host = cmp.Or(to.GetAuthority(), host)
		switch {
		case to.GetUriRegexRewrite() != nil:
			path = to.GetUriRegexRewrite().GetRewrite()
		case to.GetUri() != "":
			path = replaced(to.GetUri())
		}
	}
	var to []string
	for _, d := range r.GetRoute() {
		to = append(to, fmt.Sprintf("%s:%d=%d", d.GetDestination().GetHost(), d.GetDestination().GetPort().GetNumber(), d.GetWeight()))
	}
	return fmt.Sprintf("%s %s to %s", host, path, strings.Join(to, " "))
}

var (
	someTexts   = []string{"/", "/a", "/a/", "/ax", "/a/b", "/a/b/", "/a/bx", "/a/b/c", "/b", "/b/b", "/c", "/c/a.gif", "/a/a.gif"}
	somePaths   = []string{"/", "/a", "/a/", "/a/b", "/a/b/", "/b", "/c/", "/ax"}
	someRegexes = []string{"/a.*", "/(a|b)/.*", ".*b", "/[a-c]", `.*\.gif`}
)

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// requestsOf are requests of all sorts for some hosts.
func requestsOf(hosts ...string) (out []request) {
	for _, host := range hosts {
		for _, path := range someTexts {
			for _, method := range []string{"GET", "PUT"} {
				for _, headers := range []map[string]string{{}, {"x": "1"}, {"x": "2", "y": "1"}, {"y": "22"}} {
					out = append(out, request{host, path, method, headers})
				}
			}
		}
	}
	return out
}

// converted converts a text, and reads what comes of it as discovery does.
func converted(t *testing.T, name, text string) (*convert.Result, *routes) {
	t.Helper()
	r, err := convert.Files([]convert.File{{Name: name, Data: []byte(text)}}, nil, options)
	require.NoError(t, err, text)
	return r, routesOf(t, r.Documents)
}

const istioGateway = `apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge}
spec: {selector: {a: b}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
---
`

// randomRule is a rule of a VirtualService.
func randomRule(random *rand.Rand, to int) string {
	var match []string
	switch random.IntN(5) {
	case 0:
		match = append(match, "uri: {exact: "+pick(random, somePaths)+"}")
	case 1:
		match = append(match, "uri: {regex: '"+pick(random, someRegexes)+"'}")
	case 2, 3:
		match = append(match, "uri: {prefix: "+pick(random, somePaths)+"}")
	}
	if random.IntN(4) == 0 {
		match = append(match, "method: {exact: "+pick(random, []string{"GET", "PUT"})+"}")
	}
	if random.IntN(3) == 0 {
		match = append(match, "headers: {"+pick(random, []string{`x: {exact: "1"}`, `x: {regex: "1|2"}`, `y: {prefix: "2"}`, `x: {exact: "2"}, y: {exact: "1"}`})+"}")
	}
	then := fmt.Sprintf("route: [{destination: {host: to%d.mesh, port: {number: 80}}}]", to)
	if random.IntN(6) == 0 {
		then = fmt.Sprintf("redirect: {uri: /to%d, redirectCode: 308}", to)
	}
	if len(match) == 0 {
		return "{" + then + "}"
	}
	return "{match: [{" + strings.Join(match, ", ") + "}], " + then + "}"
}

// VirtualServices are answered as before, whatever the order of their rules.
func TestVirtualServicesKeepTheirMeaning(t *testing.T) {
	t.Parallel()
	random, all := rand.New(rand.NewPCG(3, 4)), requestsOf("a.example.com")
	for range 300 {
		var rules []string
		for i := range 1 + random.IntN(6) {
			rules = append(rules, randomRule(random, i))
		}
		source := "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a}\nspec: {hosts: [a.example.com], gateways: [edge], http: [" + strings.Join(rules, ", ") + "]}\n"
		before, err := kinds.Parse("a.yaml", []byte(source))
		require.NoError(t, err)
		r, after := converted(t, "a.yaml", istioGateway+source)
		require.Empty(t, r.Lost, source)
		spec := before[0].Resource.Spec.Message().(*networking.VirtualService)
		for _, q := range all {
			if want, got := answered(spec.GetHttp(), q, false), after.answer(80, q); want != got {
				t.Fatalf("%v is answered by %s, and not by %s\n%s\n%s", q, got, want, source, written(t, r))
			}
		}
	}
}
