package route

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// requestMatch is what a request must look like. Nil matches any.
func requestMatch(in *networking.HTTPMatchRequest) *routev3.RouteMatch {
	out := message.AnyRequest()
	if in == nil {
		return out
	}
	setPath(out, in.GetUri())
	out.CaseSensitive = wrapperspb.Bool(!in.GetIgnoreUriCase())
	out.Headers = headerMatches(in)
	out.DynamicMetadata = claimMatches(in)
	for name, m := range inOrder(in.GetQueryParams()) {
		out.QueryParameters = append(out.QueryParameters, queryMatch(name, m))
	}
	return out
}

// inOrder goes through matches by their names.
func inOrder(matches map[string]*networking.StringMatch) iter.Seq2[string, *networking.StringMatch] {
	return func(yield func(string, *networking.StringMatch) bool) {
		for _, name := range slices.Sorted(maps.Keys(matches)) {
			if !yield(name, matches[name]) {
				return
			}
		}
	}
}

func setPath(out *routev3.RouteMatch, uri *networking.StringMatch) {
	switch m := uri.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		out.PathSpecifier = &routev3.RouteMatch_Path{Path: m.Exact}
	case *networking.StringMatch_Prefix:
		out.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: m.Prefix}
	case *networking.StringMatch_Regex:
		out.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: m.Regex}}
	}
}

// headerMatches are those of named headers in the order of their names, then the pseudo headers.
func headerMatches(in *networking.HTTPMatchRequest) []*routev3.HeaderMatcher {
	var out []*routev3.HeaderMatcher
	for name, wanted := range inOrder(in.GetHeaders()) {
		if claimPath(name) == nil {
			out = append(out, headerMatch(name, wanted))
		}
	}
	for name, unwanted := range inOrder(in.GetWithoutHeaders()) {
		if claimPath(name) != nil {
			continue
		}
		m := headerMatch(name, unwanted)
		m.InvertMatch = true
		m.TreatMissingHeaderAsEmpty = !asksPresence(unwanted) // a missing header differs from any value
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b *routev3.HeaderMatcher) int { return cmp.Compare(a.GetName(), b.GetName()) })
	for _, pseudo := range []struct {
		name  string
		match *networking.StringMatch
	}{{":method", in.GetMethod()}, {":authority", in.GetAuthority()}, {":scheme", in.GetScheme()}} {
		if pseudo.match != nil {
			out = append(out, headerMatch(pseudo.name, pseudo.match))
		}
	}
	return out
}

// asksPresence reports whether any value will do: an empty match, or the regular expression "*",
// which Istio takes so.
func asksPresence(in *networking.StringMatch) bool {
	switch m := in.GetMatchType().(type) {
	case nil:
		return true
	case *networking.StringMatch_Regex:
		return m.Regex == "*"
	default:
		return false
	}
}

func headerMatch(name string, in *networking.StringMatch) *routev3.HeaderMatcher {
	out := &routev3.HeaderMatcher{Name: name}
	if asksPresence(in) {
		out.HeaderMatchSpecifier = &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}
	} else {
		out.HeaderMatchSpecifier = &routev3.HeaderMatcher_StringMatch{StringMatch: stringMatch(in)}
	}
	return out
}

func queryMatch(name string, in *networking.StringMatch) *routev3.QueryParameterMatcher {
	out := &routev3.QueryParameterMatcher{Name: name}
	if asksPresence(in) {
		out.QueryParameterMatchSpecifier = &routev3.QueryParameterMatcher_PresentMatch{PresentMatch: true}
	} else {
		out.QueryParameterMatchSpecifier = &routev3.QueryParameterMatcher_StringMatch{StringMatch: stringMatch(in)}
	}
	return out
}

// stringMatch translates a match that is not for presence. Envoy refuses an empty prefix; matching
// any value means the same.
func stringMatch(in *networking.StringMatch) *matcherv3.StringMatcher {
	switch m := in.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		return message.Exactly(m.Exact)
	case *networking.StringMatch_Prefix:
		if m.Prefix == "" {
			return message.Matching(".*")
		}
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: m.Prefix}}
	case *networking.StringMatch_Regex:
		return message.Matching(m.Regex)
	default:
		return message.Matching(".*")
	}
}

// IsCatchAll reports whether a match is for any request.
func IsCatchAll(m *routev3.RouteMatch) bool {
	if len(m.GetHeaders())+len(m.GetCookies())+len(m.GetQueryParameters())+len(m.GetDynamicMetadata()) > 0 {
		return false
	}
	switch path := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		return path.Prefix == "/"
	case *routev3.RouteMatch_SafeRegex:
		return path.SafeRegex.GetRegex() == ".*"
	default:
		return false
	}
}
