package re2

import (
	"fmt"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// Problem is an expression that Envoy refuses: the path of its field and the reason.
type Problem struct{ Path, Reason string }

// InRoute checks all expressions of a route.
func InRoute(r *networking.HTTPRoute) (all []Problem) {
	for i, m := range r.GetMatch() {
		for _, p := range InMatch(m) {
			all = append(all, Problem{fmt.Sprintf("match[%d].%s", i, p.Path), p.Reason})
		}
	}
	all = append(all, InRewrite(r)...)
	for i, origin := range r.GetCorsPolicy().GetAllowOrigins() {
		all = append(all, inText(fmt.Sprintf("corsPolicy.allowOrigins[%d]", i), origin, false)...)
	}
	return all
}

// InMatch checks the expressions of one match.
func InMatch(m *networking.HTTPMatchRequest) (all []Problem) {
	all = inText("uri", m.GetUri(), false)
	all = append(all, inText("scheme", m.GetScheme(), true)...)
	all = append(all, inText("method", m.GetMethod(), true)...)
	all = append(all, inText("authority", m.GetAuthority(), true)...)
	all = append(all, inTexts("headers", m.GetHeaders())...)
	all = append(all, inTexts("withoutHeaders", m.GetWithoutHeaders())...)
	return append(all, inTexts("queryParams", m.GetQueryParams())...)
}

// InRewrite checks the expression with which a route rewrites paths.
func InRewrite(r *networking.HTTPRoute) []Problem {
	rewrite := r.GetRewrite().GetUriRegexRewrite()
	if rewrite == nil {
		return nil
	}
	return problem("rewrite.uriRegexRewrite.match", rewrite.GetMatch())
}

// InOrigin reports whether the expression of an allowed origin has a problem.
func InOrigin(origin *networking.StringMatch) bool { return len(inText("", origin, false)) > 0 }

func inTexts(path string, texts map[string]*networking.StringMatch) (all []Problem) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		all = append(all, inText(fmt.Sprintf("%s[%q]", path, name), texts[name], true)...)
	}
	return all
}

// inText checks one match. With mayBeAny, "*" is not an expression but matches any value.
func inText(path string, m *networking.StringMatch, mayBeAny bool) []Problem {
	regex, ok := m.GetMatchType().(*networking.StringMatch_Regex)
	if !ok || mayBeAny && regex.Regex == "*" {
		return nil
	}
	return problem(path+".regex", regex.Regex)
}

func problem(path, expression string) []Problem {
	if err := Check(expression); err != nil {
		return []Problem{{path, fmt.Sprintf("the regular expression %.80q %s", expression, err)}}
	}
	return nil
}
