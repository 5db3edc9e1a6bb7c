package route

import (
	"regexp"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	networking "istio.io/api/networking/v1alpha3"
)

// match is what a request must look like. A prefix in a route of the Gateway API is one of whole
// segments: /shop is one of /shop/cart, and not of /shops.
func (c Context) match(in *networking.HTTPMatchRequest) *routev3.RouteMatch {
	out := requestMatch(in)
	if prefix := in.GetUri().GetPrefix(); c.Rule.OfGatewayAPI() && prefix != "" && prefix != "/" {
		out.PathSpecifier = &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: trimmed(prefix)}
	}
	return out
}

// trimmed is a prefix without the slash at its end, which Envoy refuses.
func trimmed(prefix string) string {
	if last := len(prefix) - 1; prefix[last] == '/' {
		return prefix[:last]
	}
	return prefix
}

// rewriteSegments rewrites a path whose prefix is one of whole segments.
func rewriteSegments(action *routev3.RouteAction, in *networking.HTTPRewrite, match *networking.HTTPMatchRequest) {
	if in.GetUri() == "" {
		rewrite(action, in)
		return
	}
	action.PrefixRewrite, action.RegexRewrite = segments(in.GetUri(), match)
}

// setSegmentsOf redirects to a path whose prefix is one of whole segments.
func setSegmentsOf(out *routev3.RedirectAction, with string, match *networking.HTTPMatchRequest) {
	prefix, regex := segments(with, match)
	if regex != nil {
		out.PathRewriteSpecifier = &routev3.RedirectAction_RegexRewrite{RegexRewrite: regex}
		return
	}
	out.PathRewriteSpecifier = &routev3.RedirectAction_PrefixRewrite{PrefixRewrite: prefix}
}

// segments says how Envoy replaces a prefix of whole segments. Where one of the two is "/" there is
// a slash too many, or one is missing: an expression takes away the prefix with the slash after it,
// and what stands before every path gets one.
func segments(with string, match *networking.HTTPMatchRequest) (prefix string, regex *matcherv3.RegexMatchAndSubstitute) {
	matched := match.GetUri().GetPrefix()
	switch {
	case matched == "/" && with != "/":
		return with + "/", nil
	case matched != "/" && with == "/":
		return "", &matcherv3.RegexMatchAndSubstitute{
			Pattern: &matcherv3.RegexMatcher{Regex: "^" + regexp.QuoteMeta(trimmed(matched)) + "(/?)(.*)"}, Substitution: `/\2`,
		}
	default:
		return with, nil
	}
}
