package gatewayapi

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
)

// filter applies the filters of a rule. It says so if one of them is not known here: what that would
// do to a request may be to refuse it, so all requests are.
func (c *conversion) filter(out *networking.HTTPRoute, filters []filterSpec, at string) (unknown string) {
	for i, f := range filters {
		path := fmt.Sprintf("%s.filters[%d]", at, i)
		switch {
		case modify(&out.Headers, f):
		case f.RequestRedirect != nil:
			out.Redirect = redirect(f.RequestRedirect)
		case f.URLRewrite != nil:
			out.Rewrite = rewrite(f.URLRewrite.Hostname, f.URLRewrite.Path)
		case f.RequestMirror != nil:
			c.mirror(out, f, path)
		case f.CORS != nil:
			out.CorsPolicy = cors(f.CORS)
		case f.ExternalAuth != nil: // stands beside the route
		default:
			unknown = fmt.Sprintf("filters of type %s are not acted on: requests that the rule matches are answered with 500", f.Type)
			c.report(path, unknown)
			return unknown
		}
	}
	return ""
}

// filterBackend applies the filters of a backend, of which there can be those of headers.
func (c *conversion) filterBackend(to *networking.HTTPRouteDestination, filters []filterSpec, at string) bool {
	for i, f := range filters {
		if !modify(&to.Headers, f) {
			c.report(fmt.Sprintf("%s.filters[%d]", at, i), fmt.Sprintf(
				"filters of type %s are not acted on here: what is sent to the backend is answered with 500. Write the filter for the rule", f.Type))
			return false
		}
	}
	return true
}

// modify changes headers, if that is what the filter does.
func modify(headers **networking.Headers, f filterSpec) bool {
	if f.RequestHeaderModifier == nil && f.ResponseHeaderModifier == nil {
		return false
	}
	if *headers == nil {
		*headers = &networking.Headers{}
	}
	if f.RequestHeaderModifier != nil {
		(*headers).Request = operations(f.RequestHeaderModifier)
	} else {
		(*headers).Response = operations(f.ResponseHeaderModifier)
	}
	return true
}

func operations(m *modifierSpec) *networking.Headers_HeaderOperations {
	return &networking.Headers_HeaderOperations{Set: texts(m.Set), Add: texts(m.Add), Remove: m.Remove}
}

// texts are the values of headers by their names. Of several for one name the first counts.
func texts(list []valueSpec) map[string]string {
	if len(list) == 0 {
		return nil
	}
	out := make(map[string]string, len(list))
	for _, v := range list {
		name := strings.ToLower(v.Name)
		if _, known := out[name]; !known {
			out[name] = v.Value
		}
	}
	return out
}

// redirect says where clients are to ask. Without a port it is the scheme's own, if there is a
// scheme, and else that of the listener.
func redirect(in *redirectSpec) *networking.HTTPRedirect {
	out := &networking.HTTPRedirect{RedirectCode: or(in.StatusCode, http.StatusFound), Authority: in.Hostname, Scheme: or(in.Scheme, "")}
	switch {
	case in.Port != nil:
		out.RedirectPort = &networking.HTTPRedirect_Port{Port: *in.Port}
	case in.Scheme != nil:
		out.RedirectPort = &networking.HTTPRedirect_DerivePort{DerivePort: networking.HTTPRedirect_FROM_PROTOCOL_DEFAULT}
	default:
		out.RedirectPort = &networking.HTTPRedirect_DerivePort{DerivePort: networking.HTTPRedirect_FROM_REQUEST_PORT}
	}
	if in.Path != nil && in.Path.Type == replaceAll {
		out.Uri = in.Path.ReplaceFullPath
	} else if in.Path != nil {
		out.PrefixRewrite = prefix(in.Path.ReplacePrefixMatch)
	}
	return out
}

const replaceAll = "ReplaceFullPath"

// rewrite says what requests are changed to.
func rewrite(host string, path *pathSpec) *networking.HTTPRewrite {
	out := &networking.HTTPRewrite{Authority: host}
	switch {
	case path == nil:
	case path.Type == replaceAll:
		out.UriRegexRewrite = &networking.RegexRewrite{Match: "/.*", Rewrite: strings.ReplaceAll(path.ReplaceFullPath, `\`, `\\`)}
	default:
		out.Uri = prefix(path.ReplacePrefixMatch)
	}
	return out
}

// prefix is what replaces the beginning of a path: "/" removes it.
func prefix(with string) string {
	if with = strings.TrimSuffix(with, "/"); with == "" {
		return "/"
	}
	return with
}

// mirror adds a copy of the requests, or of a part of them. A copy to a backend that there is not,
// or that may not be named, is left out.
func (c *conversion) mirror(out *networking.HTTPRoute, f filterSpec, at string) {
	to := c.destination(f.RequestMirror.BackendRef, at+".requestMirror.backendRef")
	if IsPoolHost(to.GetHost()) {
		to = c.nowhere(at+".requestMirror.backendRef", fault{reasonNoKind, "copies cannot go to an InferencePool: nobody asks its endpoint picker about them"})
	}
	if to.GetHost() == "" {
		return
	}
	policy := &networking.HTTPMirrorPolicy{Destination: to}
	switch in := f.RequestMirror; {
	case in.Fraction != nil:
		policy.Percentage = &networking.Percent{Value: 100 * float64(in.Fraction.Numerator) / float64(max(1, or(in.Fraction.Denominator, 100)))}
	case in.Percent != nil:
		policy.Percentage = &networking.Percent{Value: float64(*in.Percent)}
	}
	out.Mirrors = append(out.Mirrors, policy)
}

// anyOrigin is what every origin looks like that a browser sends.
const anyOrigin = `^[a-zA-Z][a-zA-Z0-9+.-]*://[^/\s?#]+$`

// defaultMaxAge is for how many seconds the API has browsers keep what they were allowed.
const defaultMaxAge = 5

func cors(in *corsSpec) *networking.CorsPolicy {
	out := &networking.CorsPolicy{
		AllowMethods: in.AllowMethods, AllowHeaders: in.AllowHeaders, ExposeHeaders: in.ExposeHeaders, UnmatchedPreflights: networking.CorsPolicy_IGNORE,
	}
	for _, o := range in.AllowOrigins {
		out.AllowOrigins = append(out.AllowOrigins, origin(o))
	}
	if in.AllowCredentials {
		out.AllowCredentials = wrapperspb.Bool(true)
	}
	out.MaxAge = &durationpb.Duration{Seconds: cmp.Or(in.MaxAge, defaultMaxAge)}
	return out
}

// origin is the match of an allowed origin, in which stars stand for anything.
func origin(text string) *networking.StringMatch {
	switch stars := strings.Count(text, "*"); {
	case text == "*":
		return matching(anyOrigin)
	case stars == 0:
		return exactly(text)
	case stars == 1 && strings.HasSuffix(text, "*"):
		return beginning(strings.TrimSuffix(text, "*"))
	default:
		return matching("^" + strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, ".*") + "$")
	}
}
