package kuma

import (
	"cmp"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
	"github.com/pgmesh/pgmesh/mcp-client/convert/virtual"
)

// route is one rule of a MeshHTTPRoute for one of its matches. Kuma takes the narrowest match first.
type route struct {
	made *networking.HTTPRoute

	clients map[string]string // tags of those that it is for; all if there are none
	path    int               // how exactly the path is said: by one of the ranks
	length  int               // of what is said of it
	method  bool
	values  int // conditions on headers
	queries int
}

// The ranks of paths.
const (
	byNothing = iota
	byExpression
	byPrefix
	byAll
)

// narrower orders routes as Kuma does.
func narrower(a, b route) int {
	flag := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	return cmp.Or(b.path-a.path, b.length-a.length, flag(b.method)-flag(a.method), b.values-a.values, b.queries-a.queries, len(b.clients)-len(a.clients))
}

// routes reads where requests and connections go.
func (c *Conversion) routes() {
	for _, kind := range []string{"MeshHTTPRoute", "MeshTCPRoute"} {
		for _, r := range c.of(kind) {
			clients, said := c.wanted(refOf(r.spec.Object("targetRef")))
			for _, o := range r.spec.Objects("to") {
				to := refOf(o.Object("targetRef"))
				s := c.services[to.name]
				if s == nil || !said || len(to.tags) > 0 || to.odd {
					c.Lose(o.At, "it cannot be said for whom it is, or nothing is known of the service "+to.name+": it is left out", "convert the Dataplanes or the MeshService with it, or write a VirtualService")
					o.Skip("rules")
					continue
				}
				for _, rule := range o.Objects("rules") {
					if kind == "MeshTCPRoute" {
						c.tcpRule(s, rule, clients)
					} else {
						c.httpRule(s, rule, clients)
					}
				}
			}
		}
	}
}

func (c *Conversion) tcpRule(s *service, o *fields.Object, clients map[string]string) {
	const onward = "connections go on to the service itself"
	targets := c.targets(o.Object("default").Objects("backendRefs"), onward, false)
	if len(clients) > 0 || targets == nil {
		if len(clients) > 0 {
			c.Lose(o.At, "it is about some proxies alone: "+onward, "write a VirtualService")
		}
		return
	}
	s.said().tcp = nil
	for _, t := range targets {
		s.rules.tcp = append(s.rules.tcp, &networking.RouteDestination{Destination: t.GetDestination(), Weight: t.GetWeight()})
	}
}

func (c *Conversion) httpRule(s *service, o *fields.Object, clients map[string]string) {
	matches := o.Objects("matches")
	if len(matches) == 0 {
		c.Lose(o.At, "it matches nothing: it is left out", "")
	}
	for _, m := range matches {
		for _, r := range c.matched(m) {
			if r.clients = clients; len(clients) > 0 {
				r.made.Match[0].SourceLabels = clients
			}
			c.does(s, r, o.Object("default"))
			said := s.said()
			said.routes = append(said.routes, r)
		}
	}
}

// matched are the routes for a match: two for a prefix, which is of whole segments in Kuma.
func (c *Conversion) matched(o *fields.Object) []route {
	m := &networking.HTTPMatchRequest{}
	r := route{}
	if method := o.Text("method"); method != "" {
		m.Method, r.method = virtual.Exactly(method), true
	}
	headers, queries := o.Objects("headers"), o.Objects("queryParams")
	r.values, r.queries = len(headers), len(queries)
	for _, h := range headers {
		into, value := &m.Headers, virtual.Exactly(h.Text("value"))
		switch h.Text("type") {
		case "RegularExpression":
			value = virtual.Like(h.Text("value"))
		case "Prefix":
			value = virtual.Prefix(h.Text("value"))
		case "Present":
			value = virtual.Present()
		case "Absent":
			into, value = &m.WithoutHeaders, virtual.Present()
		}
		put(into, strings.ToLower(h.Text("name")), value)
	}
	for _, q := range queries {
		value := virtual.Exactly(q.Text("value"))
		if q.Text("type") == "RegularExpression" {
			value = virtual.Like(q.Text("value"))
		}
		put(&m.QueryParams, q.Text("name"), value)
	}
	path := o.Object("path")
	text, kind := path.Text("value"), path.Text("type")
	if left := o.Unread(); len(left) > 0 {
		c.Lose(o.At, "not all of the match can be said: it is left out, and its requests go where another that matches leads", "write it into the VirtualService by hand")
		return nil
	}
	switch {
	case path == nil:
		m.Uri = virtual.Prefix("/")
		return []route{r.with(m, byNothing, 0)}
	case kind == "PathPrefix" && strings.Trim(text, "/") == "":
		m.Uri = virtual.Prefix("/")
		return []route{r.with(m, byPrefix, 1)}
	case kind == "Exact":
		m.Uri = virtual.Exactly(text)
		return []route{r.with(m, byAll, 0)}
	case kind == "RegularExpression":
		m.Uri = virtual.Like(text)
		return []route{r.with(m, byExpression, len(text))}
	}
	text = strings.TrimSuffix(text, "/")
	whole := &networking.HTTPMatchRequest{Uri: virtual.Exactly(text), Method: m.GetMethod(), Headers: m.GetHeaders(), WithoutHeaders: m.GetWithoutHeaders(), QueryParams: m.GetQueryParams()}
	m.Uri = virtual.Prefix(text + "/")
	return []route{r.with(whole, byPrefix, len(text)), r.with(m, byPrefix, len(text))}
}

func (r route) with(m *networking.HTTPMatchRequest, path, length int) route {
	r.made, r.path, r.length = &networking.HTTPRoute{Match: []*networking.HTTPMatchRequest{m}}, path, length
	return r
}

func put(into *map[string]*networking.StringMatch, name string, value *networking.StringMatch) {
	if *into == nil {
		*into = map[string]*networking.StringMatch{}
	}
	(*into)[name] = value
}

// does writes what becomes of the requests of a route.
func (c *Conversion) does(s *service, r route, o *fields.Object) {
	out := r.made
	for _, f := range o.Objects("filters") {
		c.filter(out, f)
	}
	if out.GetRedirect() != nil {
		o.Skip("backendRefs")
		return
	}
	refs := o.Objects("backendRefs")
	if len(refs) == 0 {
		out.Route = []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: s.host()}}}
		return
	}
	out.Route = c.targets(refs, "ALL requests of the rule are answered with 503", true)
	if out.GetRoute() == nil {
		out.DirectResponse, out.Rewrite, out.Mirrors = &networking.HTTPDirectResponse{Status: http.StatusServiceUnavailable}, nil, nil
	}
}

// targets are where the backends of a rule are; none if one of them is not known, of which it is told what becomes.
// If it has a part of the requests, it may be kept as a host that is not there: Envoy answers that part with 503.
func (c *Conversion) targets(refs []*fields.Object, becomes string, keep bool) (out []*networking.HTTPRouteDestination) {
	for _, o := range refs {
		weight, weighs := o.Whole("weight")
		if weighs && weight == 0 && len(refs) > 1 {
			o.Settle()
			continue
		}
		to := refOf(o)
		d := c.destination(to)
		if d == nil {
			host := c.missing(to)
			what, instead := "nothing is known of the "+strings.TrimSpace(to.kind+" "+to.name), "convert the Dataplanes or the service with it"
			if !keep || host == "" || len(refs) == 1 {
				c.Lose(o.At, what+": "+becomes, instead)
				return nil
			}
			c.Lose(o.At, what+": its share of the requests is answered with 503, those of the other backends are not", instead+", or write a ServiceEntry with the host "+host)
			d = &networking.Destination{Host: host}
		}
		share := &networking.HTTPRouteDestination{Destination: d}
		switch {
		case len(refs) == 1:
		case weighs:
			share.Weight = int32(min(weight, 1<<20))
		default:
			share.Weight = 1
		}
		out = append(out, share)
	}
	if len(out) == 1 {
		out[0].Weight = 0
	}
	return out
}

// destination is where a backend is; nil if that is not known.
func (c *Conversion) destination(to ref) *networking.Destination {
	next := c.services[to.name]
	if next == nil || to.odd || !slices.Contains([]string{"MeshService", "MeshServiceSubset", "MeshExternalService"}, to.kind) {
		return nil
	}
	d := &networking.Destination{Host: next.host()}
	if to.port != 0 && len(next.entry.GetPorts()) > 1 {
		d.Port = &networking.PortSelector{Number: to.port}
	}
	if len(to.tags) > 0 {
		d.Subset = next.subset(to.tags)
	}
	return d
}

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// missing is the host of a backend that is not known, "" if there is none of which it is sure that nothing else has it.
func (c *Conversion) missing(to ref) string {
	switch {
	case !label.MatchString(to.name) || to.odd:
		return ""
	case to.kind == "MeshMultiZoneService":
		return to.name + ".mzsvc.mesh.local"
	case c.services[to.name] == nil:
		return to.name + ".mesh"
	}
	return ""
}

// subset is the part of a service that has tags.
func (s *service) subset(tags map[string]string) string {
	var name []string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		name = append(name, key[strings.LastIndex(key, "/")+1:], tags[key])
	}
	made := result.Name(strings.Join(name, "-"))
	s.said().subsets[made] = tags
	return made
}

func (c *Conversion) filter(out *networking.HTTPRoute, f *fields.Object) {
	switch kind := f.Text("type"); kind {
	case "RequestHeaderModifier":
		changes(out).Request = operations(f.Object("requestHeaderModifier"))
	case "ResponseHeaderModifier":
		changes(out).Response = operations(f.Object("responseHeaderModifier"))
	case "URLRewrite":
		o := f.Object("urlRewrite")
		out.Rewrite = &networking.HTTPRewrite{Authority: o.Text("hostname")}
		if path := o.Object("path"); path != nil {
			out.Rewrite.Uri, out.Rewrite.UriRegexRewrite = replaced(out, path)
		}
	case "RequestRedirect":
		c.redirect(out, f.Object("requestRedirect"))
	case "RequestMirror":
		c.mirror(out, f.Object("requestMirror"))
	}
}

func changes(out *networking.HTTPRoute) *networking.Headers {
	if out.Headers == nil {
		out.Headers = &networking.Headers{}
	}
	return out.GetHeaders()
}

func operations(o *fields.Object) *networking.Headers_HeaderOperations {
	return virtual.Changes(named(o.Objects("set")), named(o.Objects("add")), o.Texts("remove"))
}

// named are headers with their values.
func named(all []*fields.Object) map[string]string {
	out := map[string]string{}
	for _, h := range all {
		out[h.Text("name")] = h.Text("value")
	}
	return out
}

// replaced is what takes the place of a path, or of what is matched of it.
func replaced(out *networking.HTTPRoute, path *fields.Object) (string, *networking.RegexRewrite) {
	matched := out.GetMatch()[0].GetUri()
	path.Skip("type")
	if full := path.Text("replaceFullPath"); full != "" {
		return "", &networking.RegexRewrite{Match: ".*", Rewrite: strings.ReplaceAll(full, `\`, `\\`)}
	}
	with := path.Text("replacePrefixMatch")
	switch {
	case strings.HasSuffix(matched.GetPrefix(), "/"):
		return strings.TrimSuffix(with, "/") + "/", nil
	default:
		return cmp.Or(with, "/"), nil
	}
}

func (c *Conversion) redirect(out *networking.HTTPRoute, o *fields.Object) {
	code, there := o.Whole("statusCode")
	if !there {
		code = http.StatusFound
	}
	out.Redirect = &networking.HTTPRedirect{RedirectCode: code, Authority: o.Text("hostname"), Scheme: o.Text("scheme")}
	if port, there := o.Whole("port"); there {
		out.Redirect.RedirectPort = &networking.HTTPRedirect_Port{Port: port}
	}
	path := o.Object("path")
	if full := path.Text("replaceFullPath"); full != "" {
		out.Redirect.Uri = full
	} else if with, there := path.Text("replacePrefixMatch"), path.Has("replacePrefixMatch"); there {
		out.Redirect.Uri = with
		if strings.HasSuffix(out.GetMatch()[0].GetUri().GetPrefix(), "/") {
			c.Lose(path.At, "a redirection has one path for all that it matches", "write it as an HTTPRoute: docs/gateway-api.md")
		}
	}
	path.Skip("type")
}

func (c *Conversion) mirror(out *networking.HTTPRoute, o *fields.Object) {
	targets := c.targets([]*fields.Object{o.Object("backendRef")}, "requests are not copied to it", false)
	if targets == nil {
		return
	}
	m := &networking.HTTPMirrorPolicy{Destination: targets[0].GetDestination()}
	if share, there := o.Number("percentage"); there {
		m.Percentage = &networking.Percent{Value: share}
	}
	out.Mirrors = append(out.Mirrors, m)
}

// virtualService writes where requests and connections to a service go, and what is said of each.
func (c *Conversion) virtualService(s *service) {
	if s.rules == nil {
		return
	}
	v := &networking.VirtualService{Hosts: []string{s.host()}}
	if len(s.rules.tcp) > 0 {
		v.Tcp = []*networking.TCPRoute{{Route: s.rules.tcp}}
	}
	if len(s.rules.routes) > 0 || s.rules.timeout != nil || s.rules.retries != nil || s.rules.fault != nil {
		slices.SortStableFunc(s.rules.routes, narrower)
		for _, r := range s.rules.routes {
			v.Http = append(v.Http, r.made)
		}
		v.Http = append(v.Http, &networking.HTTPRoute{Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: s.host()}}}})
	}
	for _, r := range v.GetHttp() {
		if r.GetRedirect() == nil && r.GetDirectResponse() == nil {
			r.Timeout, r.Retries, r.Fault = s.rules.timeout, s.rules.retries, s.rules.fault
		}
	}
	if len(v.GetHttp())+len(v.GetTcp()) > 0 {
		c.Add("VirtualService", c.namespace, result.Name(s.name), v, report.Place{File: s.at.File, Document: s.at.Document, Line: s.at.Line, Kind: s.at.Kind, Name: s.at.Name})
	}
}
