package consul

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/virtual"
)

// route is one of a service-router.
func (c *Conversion) route(s *service, o *fields.Object) *networking.HTTPRoute {
	match, why := c.match(o.Object("Match"))
	if why != "" {
		c.Lose(o.At, why+": the route is left out, and its requests go where the next that matches leads", "write it into the VirtualService by hand")
		o.Settle()
		return nil
	}
	d := o.Object("Destination")
	next, unknown := s, (*unsaid)(nil)
	if d != nil {
		next, unknown = c.other(s, d)
	}
	whose := "the requests of " + o.At.Path + " of the service-router of " + s.name
	if unknown != nil {
		c.Lose(unknown.at, unknown.what+": "+whose+" are answered with 503", unknown.instead)
		d.Settle()
		return virtual.Refusing(match)
	}
	out := c.to(next, d.Text("ServiceSubset"), o.At.In("Destination.ServiceSubset"), whose)
	out.Match = match
	if out.GetDirectResponse() != nil {
		d.Settle()
		return out
	}
	c.said(out, d)
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

// match converts the match of a route, or says why it cannot. It never matches more without a warning.
func (c *Conversion) match(of *fields.Object) (all []*networking.HTTPMatchRequest, why string) {
	o := of.Object("HTTP")
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
	why = cmp.Or(headers(m, o.Objects("Header")), parameters(m, o.Objects("QueryParam")))
	if unread := of.Unread(); len(unread) > 0 {
		why = "its match asks for what is not known here, " + named(of, unread)
	}
	return []*networking.HTTPMatchRequest{m}, why
}

// named are the fields at places within an object.
func named(of *fields.Object, places []report.Place) string {
	var names []string
	for _, at := range places {
		names = append(names, strings.TrimPrefix(at.Path, of.At.Path+"."))
	}
	return strings.Join(names, ", ")
}

// headers reads conditions on headers, and says why one cannot be said. A header has one, and one that it must not meet.
func headers(m *networking.HTTPMatchRequest, all []*fields.Object) (why string) {
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
		if why = unfit(name, value, (*into)[name]); why != "" {
			return "of its match, Header " + why
		}
		(*into)[name] = value
	}
	return ""
}

// unfit is why a condition cannot stand beside the one that there is of the same name.
func unfit(name string, value, before *networking.StringMatch) string {
	switch {
	case value == nil:
		return name + " says nothing of its value"
	case before != nil:
		return name + " is there twice, and a match has one condition on it"
	}
	return ""
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

func parameters(m *networking.HTTPMatchRequest, all []*fields.Object) (why string) {
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
		if why = unfit(name, value, m.GetQueryParams()[name]); why != "" {
			return "of its match, QueryParam " + why
		}
		if m.QueryParams == nil {
			m.QueryParams = map[string]*networking.StringMatch{}
		}
		m.QueryParams[name] = value
	}
	return ""
}

// operations are changes of headers; nil if there are none.
func operations(o *fields.Object) *networking.Headers_HeaderOperations {
	return virtual.Changes(o.Map("Set"), o.Map("Add"), o.Texts("Remove"))
}
