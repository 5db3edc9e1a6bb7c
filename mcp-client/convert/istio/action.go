package istio

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// refused says what becomes of requests for which there is no such answer.
const refused = ": the rule's requests are answered with 500"

// action converts what a rule does. It is nil if that cannot be said.
func (v *virtualService) action(r *networking.HTTPRoute, at report.Place) *gateway.Action {
	a := &gateway.Action{}
	if r.GetName() != "" && result.Name(r.GetName()) == r.GetName() {
		a.Name = r.GetName()
	}
	switch {
	case r.GetDelegate() != nil:
		v.Lose(at.In("delegate"), "a route does not delegate"+refused, "write the rules of the delegate in its place")
		return nil
	case r.GetDirectResponse() != nil:
		v.Lose(at.In("directResponse"), "a route does not answer by itself"+refused, "keep a VirtualService for it")
		return nil
	case r.GetRedirect() != nil:
		f, ok := v.redirect(r.GetRedirect(), at.In("redirect"))
		if !ok {
			return nil
		}
		a.Filters = append(a.Filters, f)
	}
	v.headers(a, r.GetHeaders(), at.In("headers"))
	if r.GetRewrite() != nil && !v.rewrite(a, r, at.In("rewrite")) {
		return nil
	}
	v.mirrors(a, r, at)
	v.cors(a, r.GetCorsPolicy(), at.In("corsPolicy"))
	v.limits(a, r, at)
	if r.GetFault() != nil {
		v.Lose(at.In("fault"), "a route has no faults: its requests are answered without", "keep a VirtualService while you test")
	}
	if r.GetRedirect() == nil && !v.backends(a, r.GetRoute(), at) {
		return nil
	}
	return a
}

// redirect converts a redirection, which is not ok if there is none like it.
func (v *virtualService) redirect(in *networking.HTTPRedirect, at report.Place) (gateway.Filter, bool) {
	out := &gateway.Redirect{Scheme: in.GetScheme(), Hostname: in.GetAuthority(), StatusCode: int(in.GetRedirectCode())}
	if out.StatusCode == 0 {
		out.StatusCode = 301
	}
	if !slices.Contains([]int{301, 302, 303, 307, 308}, out.StatusCode) {
		v.Lose(at.In("redirectCode"), fmt.Sprintf("a route does not redirect with %d: it does with 301", out.StatusCode), "")
		out.StatusCode = 301
	}
	if host, port, found := strings.Cut(out.Hostname, ":"); found {
		n, _ := strconv.Atoi(port)
		out.Hostname, out.Port = host, n
	}
	switch in.GetUri() {
	case "":
	case "%PREFIX()%":
		v.Lose(at.In("uri"), "a route does not keep the prefix by a name"+refused, "leave the uri out")
		return gateway.Filter{}, false
	default:
		out.Path = gateway.FullPath(in.GetUri())
	}
	if in.GetPort() != 0 {
		out.Port = int(in.GetPort())
	}
	if out.Scheme == "" && in.GetRedirectPort() != nil && in.GetPort() == 0 && in.GetDerivePort() == networking.HTTPRedirect_FROM_PROTOCOL_DEFAULT {
		v.Lose(at.In("derivePort"), "a redirection has the port of the listener", "write the scheme too, which has its own port then")
	}
	return gateway.Filter{Type: "RequestRedirect", Redirect: out}, true
}

// headers converts changes of headers. The Host is no header to the Gateway API.
func (v *virtualService) headers(a *gateway.Action, in *networking.Headers, at report.Place) {
	a.Filters = append(a.Filters, v.modifiers(in, at, func(host string) { setHost(a, host) })...)
}

func setHost(a *gateway.Action, host string) {
	for _, f := range a.Filters {
		if f.Rewrite != nil {
			f.Rewrite.Hostname = host
			return
		}
	}
	a.Filters = append(a.Filters, gateway.Filter{Type: "URLRewrite", Rewrite: &gateway.Rewrite{Hostname: host}})
}

func (v *virtualService) modifiers(in *networking.Headers, at report.Place, host func(string)) (out []gateway.Filter) {
	modifier := func(ops *networking.Headers_HeaderOperations, at report.Place) *gateway.Modifier {
		m := &gateway.Modifier{Remove: ops.GetRemove()}
		for _, name := range slices.Sorted(maps.Keys(ops.GetSet())) {
			value := ops.GetSet()[name]
			switch {
			case strings.EqualFold(name, "host") || name == ":authority":
				if host == nil {
					v.Lose(at.In("set.%s", name), "a backend does not change the Host: it stays", "write it for the rule")
				} else {
					host(value)
				}
			default:
				m.Set = append(m.Set, gateway.Header{Name: name, Value: value})
			}
		}
		for _, name := range slices.Sorted(maps.Keys(ops.GetAdd())) {
			m.Add = append(m.Add, gateway.Header{Name: name, Value: ops.GetAdd()[name]})
		}
		return m
	}
	if m := modifier(in.GetRequest(), at.In("request")); !m.Empty() {
		out = append(out, gateway.Filter{Type: "RequestHeaderModifier", RequestHeaders: m})
	}
	if m := modifier(in.GetResponse(), at.In("response")); !m.Empty() {
		out = append(out, gateway.Filter{Type: "ResponseHeaderModifier", ResponseHeaders: m})
	}
	return out
}

// rewrite converts a rewrite, and reports whether there is one like it. What replaces the path depends
// on how that is matched: all matches of the rule have to agree.
func (v *virtualService) rewrite(a *gateway.Action, r *networking.HTTPRoute, at report.Place) bool {
	in := r.GetRewrite()
	if in.GetUriRegexRewrite() != nil {
		v.Lose(at.In("uriRegexRewrite"), "a route does not rewrite by regular expressions"+refused, "keep a VirtualService for it, or rewrite prefixes")
		return false
	}
	if in.GetAuthority() != "" {
		setHost(a, in.GetAuthority())
	}
	if in.GetUri() == "" {
		return true
	}
	var path *gateway.Path
	full, prefix := 0, 0
	for _, m := range r.GetMatch() {
		if m.GetUri().GetExact() != "" || m.GetUri().GetRegex() != "" {
			full++
		} else {
			prefix++
		}
	}
	switch {
	case full > 0 && prefix > 0:
		v.Lose(at.In("uri"), "its matches are of prefixes and of whole paths, of which a route replaces one or the other"+refused, "divide the rule")
		return false
	case full > 0:
		path = gateway.FullPath(in.GetUri())
	default:
		path = gateway.PrefixPath(in.GetUri())
		v.slashes(r, at.In("uri"))
	}
	setHost(a, in.GetAuthority())
	for _, f := range a.Filters {
		if f.Rewrite != nil {
			f.Rewrite.Path = path
		}
	}
	return true
}

// slashes tells where a prefix is replaced by what ends otherwise: segments are joined by one slash.
func (v *virtualService) slashes(r *networking.HTTPRoute, at report.Place) {
	with := r.GetRewrite().GetUri()
	prefixes := []string{"/"}
	if len(r.GetMatch()) > 0 {
		prefixes = nil
	}
	for _, m := range r.GetMatch() {
		if prefix := m.GetUri().GetPrefix(); prefix == "" {
			prefixes = append(prefixes, "/")
		} else {
			prefixes = append(prefixes, prefix)
		}
	}
	for _, prefix := range prefixes {
		if strings.HasSuffix(prefix, "/") != strings.HasSuffix(with, "/") {
			joined, rest := strings.TrimSuffix(with, "/")+"/x", strings.TrimSuffix(prefix, "/")+"/x"
			v.Lose(at, fmt.Sprintf("%s becomes %s, and not %s as before: segments are joined by one slash", rest, joined, with+strings.TrimPrefix(rest, prefix)), "")
		}
	}
}

// mirrors converts copies of requests.
func (v *virtualService) mirrors(a *gateway.Action, r *networking.HTTPRoute, at report.Place) {
	all := slices.Clone(r.GetMirrors())
	if r.GetMirror() != nil {
		one := &networking.HTTPMirrorPolicy{Destination: r.GetMirror(), Percentage: r.GetMirrorPercentage()}
		if one.GetPercentage() == nil && r.GetMirrorPercent() != nil { //nolint:staticcheck // people still write it
			one.Percentage = &networking.Percent{Value: float64(r.GetMirrorPercent().GetValue())} //nolint:staticcheck // the same
		}
		all = append([]*networking.HTTPMirrorPolicy{one}, all...)
	}
	for i, m := range all {
		at := at.In("mirrors[%d]", i)
		to, ok := v.backend(m.GetDestination(), at)
		if !ok {
			continue
		}
		out := &gateway.Mirror{Backend: to}
		if m.GetPercentage() != nil && m.GetPercentage().GetValue() < 100 {
			if m.GetPercentage().GetValue() <= 0 {
				continue
			}
			out.Fraction = &gateway.Fraction{Numerator: int(math.Round(m.GetPercentage().GetValue() * 10000)), Denominator: 1000000}
		}
		a.Filters = append(a.Filters, gateway.Filter{Type: "RequestMirror", Mirror: out})
	}
}

func (v *virtualService) cors(a *gateway.Action, in *networking.CorsPolicy, at report.Place) {
	if in == nil {
		return
	}
	out := &gateway.CORS{
		AllowCredentials: in.GetAllowCredentials().GetValue(), AllowMethods: in.GetAllowMethods(), AllowHeaders: in.GetAllowHeaders(),
		ExposeHeaders: in.GetExposeHeaders(), MaxAge: int(in.GetMaxAge().GetSeconds()),
	}
	out.AllowOrigins = append(out.AllowOrigins, in.GetAllowOrigin()...) //nolint:staticcheck // people still write it
	for i, o := range in.GetAllowOrigins() {
		switch {
		case o.GetExact() != "":
			out.AllowOrigins = append(out.AllowOrigins, o.GetExact())
		case o.GetRegex() == ".*" || o.GetPrefix() == "http":
			out.AllowOrigins = append(out.AllowOrigins, "*")
		default:
			v.Lose(at.In("allowOrigins[%d]", i), "a route allows origins by their names: browsers refuse answers to those that only this matches", "name them, or write https://*.example.com")
		}
	}
	if in.GetUnmatchedPreflights() == networking.CorsPolicy_FORWARD {
		v.Lose(at.In("unmatchedPreflights"), "preflights from origins that are not allowed are answered by the gateway", "")
	}
	if len(out.AllowOrigins) > 0 {
		a.Filters = append(a.Filters, gateway.Filter{Type: "CORS", CORS: out})
	}
}

// limits converts timeouts and retries.
func (v *virtualService) limits(a *gateway.Action, r *networking.HTTPRoute, at report.Place) {
	times := &gateway.Timeouts{}
	if r.GetTimeout() != nil {
		times.Request = written(r.GetTimeout())
	}
	if in := r.GetRetries(); in != nil {
		attempts := int(in.GetAttempts())
		a.Retry = &gateway.Retry{Attempts: &attempts, Codes: v.codes(in.GetRetryOn(), at.In("retries.retryOn"))}
		if in.GetRetryRemoteLocalities() != nil || in.GetRetryIgnorePreviousHosts() != nil {
			v.Lose(at.In("retries"), "a route does not say where it tries again: retryRemoteLocalities and retryIgnorePreviousHosts are left out", "")
		}
		if in.GetBackoff() != nil {
			a.Retry.Backoff = written(in.GetBackoff())
		}
		if in.GetPerTryTimeout() != nil {
			times.Backend = written(in.GetPerTryTimeout())
		}
	}
	if *times != (gateway.Timeouts{}) {
		a.Timeouts = times
	}
}

// written is a duration as the Gateway API has it: numbers of up to five digits.
func written(d *durationpb.Duration) string {
	in := d.AsDuration().Round(time.Millisecond)
	if in <= 0 {
		return "0s"
	}
	var b strings.Builder
	for _, unit := range []struct {
		name string
		is   time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if n := in / unit.is; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, unit.name)
			in %= unit.is
		}
	}
	return b.String()
}

// codes are the statuses after which a request is tried again. Failures of connections are always.
func (v *virtualService) codes(on string, at report.Place) (out []int) {
	for condition := range strings.SplitSeq(on, ",") {
		switch condition = strings.TrimSpace(condition); condition {
		case "", "connect-failure", "refused-stream", "unavailable", "cancelled", "retriable-status-codes":
		case "5xx":
			out = append(out, 500, 502, 503, 504)
		case "gateway-error":
			out = append(out, 502, 503, 504)
		default:
			code, err := strconv.Atoi(condition)
			if err != nil {
				v.Lose(at, "a route tries nothing again for "+condition, "name statuses")
				continue
			}
			out = append(out, code)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
