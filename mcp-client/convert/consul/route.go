package consul

import (
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
	"github.com/pgmesh/pgmesh/mcp-client/convert/virtual"
)

// route is one of a service-router.
func (c *Conversion) route(s *service, o *fields.Object) *networking.HTTPRoute {
	match, said := c.match(o.Object("Match").Object("HTTP"))
	if unread := o.Object("Match").Unread(); len(unread) > 0 {
		said = false
	}
	d := o.Object("Destination")
	at := o.At
	if !said {
		c.Lose(at, "its match cannot be said: the route is left out, and its requests go where the next that matches leads", "write it into the VirtualService by hand")
		return nil
	}
	next, why := s, (*unsaid)(nil)
	if d != nil {
		next, why = c.other(s, d)
	}
	if why != nil {
		c.Lose(why.at, why.what+": "+refused, why.why)
		return virtual.Refusing(match)
	}
	out := c.to(next, d.Text("ServiceSubset"), &at)
	out.Match = match
	if out.GetDirectResponse() == nil {
		c.said(out, d)
	}
	return out
}

// said writes what else the destination of a route says.
func (c *Conversion) said(out *networking.HTTPRoute, d *fields.Object) {
	if rewrite := d.Text("PrefixRewrite"); rewrite != "" {
		out.Rewrite = &networking.HTTPRewrite{Uri: rewrite}
	}
	if timeout, there := d.Duration("RequestTimeout"); there && timeout > 0 {
		out.Timeout = durationpb.New(timeout)
	}
	request, response := operations(d.Object("RequestHeaders")), operations(d.Object("ResponseHeaders"))
	if request != nil || response != nil {
		out.Headers = &networking.Headers{Request: request, Response: response}
	}
	c.retries(out, d)
}

// retries writes when a request is sent again. A number without a reason means never, in Consul.
func (c *Conversion) retries(out *networking.HTTPRoute, d *fields.Object) {
	on := d.Texts("RetryOn")
	if d.Yes("RetryOnConnectFailure") && !slices.Contains(on, "connect-failure") {
		on = append(on, "connect-failure")
	}
	on = append(on, d.Texts("RetryOnStatusCodes")...)
	count, there := d.Whole("NumRetries")
	switch {
	case len(on) == 0:
		if count > 0 {
			c.Note(d.At.In("NumRetries"), "nothing says on what a request is sent again, so it never is, as in Consul", "add RetryOn to the route, or write retries.retryOn")
		}
		return
	case !there || count == 0:
		count = 1
	}
	out.Retries = &networking.HTTPRetry{Attempts: int32(min(count, 1000)), RetryOn: strings.Join(on, ",")}
}

// match is what a request has to be for a route. It is never without a word wider than that.
func (c *Conversion) match(o *fields.Object) ([]*networking.HTTPMatchRequest, bool) {
	m := &networking.HTTPMatchRequest{IgnoreUriCase: o.Yes("CaseInsensitive")}
	exact, prefix, expression := o.Text("PathExact"), o.Text("PathPrefix"), o.Text("PathRegex")
	switch {
	case exact != "":
		m.Uri = virtual.Exactly(exact)
	case prefix != "":
		m.Uri = virtual.Prefix(prefix)
	case expression != "":
		m.Uri = virtual.Like(expression)
	default:
		m.Uri, m.IgnoreUriCase = virtual.Prefix("/"), false
	}
	if methods := o.Texts("Methods"); len(methods) == 1 {
		m.Method = virtual.Exactly(methods[0])
	} else if len(methods) > 1 {
		m.Method = virtual.Like(strings.Join(methods, "|"))
	}
	said := headers(m, o.Objects("Header")) && parameters(m, o.Objects("QueryParam"))
	return []*networking.HTTPMatchRequest{m}, said && len(o.Unread()) == 0
}

// headers reads conditions on headers. A header has one, and one that it must not meet.
func headers(m *networking.HTTPMatchRequest, all []*fields.Object) bool {
	for _, o := range all {
		value := valueOf(o)
		into := &m.Headers
		if o.Yes("Invert") {
			into = &m.WithoutHeaders
		}
		name := strings.ToLower(o.Text("Name"))
		if *into == nil {
			*into = map[string]*networking.StringMatch{}
		}
		if (*into)[name] != nil || value == nil {
			return false
		}
		(*into)[name] = value
	}
	return true
}

// valueOf is what a header has to be.
func valueOf(o *fields.Object) *networking.StringMatch {
	anyCase := ""
	if o.Yes("IgnoreCase") {
		anyCase = "(?i)"
	}
	exact, prefix, suffix, part, expression := o.Text("Exact"), o.Text("Prefix"), o.Text("Suffix"), o.Text("Contains"), o.Text("Regex")
	switch {
	case o.Yes("Present"):
		return virtual.Present()
	case exact != "" && anyCase == "":
		return virtual.Exactly(exact)
	case exact != "":
		return virtual.Like(anyCase + regexp.QuoteMeta(exact))
	case prefix != "" && anyCase == "":
		return virtual.Prefix(prefix)
	case prefix != "":
		return virtual.Like(anyCase + regexp.QuoteMeta(prefix) + ".*")
	case suffix != "":
		return virtual.Like(anyCase + ".*" + regexp.QuoteMeta(suffix))
	case part != "":
		return virtual.Like(anyCase + ".*" + regexp.QuoteMeta(part) + ".*")
	case expression != "":
		return virtual.Like(expression)
	}
	return nil
}

func parameters(m *networking.HTTPMatchRequest, all []*fields.Object) bool {
	for _, o := range all {
		name, value := o.Text("Name"), (*networking.StringMatch)(nil)
		exact, expression := o.Text("Exact"), o.Text("Regex")
		switch {
		case o.Yes("Present"):
			value = virtual.Like(".*")
		case exact != "":
			value = virtual.Exactly(exact)
		case expression != "":
			value = virtual.Like(expression)
		}
		if m.GetQueryParams()[name] != nil || value == nil {
			return false
		}
		if m.QueryParams == nil {
			m.QueryParams = map[string]*networking.StringMatch{}
		}
		m.QueryParams[name] = value
	}
	return true
}

// operations are changes of headers; nil if there are none.
func operations(o *fields.Object) *networking.Headers_HeaderOperations {
	return virtual.Changes(o.Map("Set"), o.Map("Add"), o.Texts("Remove"))
}
