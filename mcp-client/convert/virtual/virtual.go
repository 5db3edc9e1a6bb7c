// Package virtual makes the parts of VirtualServices that conversions have in common: what a text has to be, and
// changes of headers.
package virtual

import (
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// Exactly takes one text.
func Exactly(text string) *networking.StringMatch {
	return &networking.StringMatch{MatchType: &networking.StringMatch_Exact{Exact: text}}
}

// Prefix takes what begins with a text.
func Prefix(text string) *networking.StringMatch {
	return &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: text}}
}

// Like takes what is like a regular expression as a whole.
func Like(expression string) *networking.StringMatch {
	return &networking.StringMatch{MatchType: &networking.StringMatch_Regex{Regex: expression}}
}

// Present takes whatever is there, of a header.
func Present() *networking.StringMatch { return &networking.StringMatch{} }

// Refusing is a route that lets nothing through.
func Refusing(match []*networking.HTTPMatchRequest) *networking.HTTPRoute {
	return &networking.HTTPRoute{Match: match, DirectResponse: &networking.HTTPDirectResponse{Status: refused}}
}

// refused is the status with which Envoy answers where a route leads nowhere.
const refused = 503

// Changes are changes of headers; nil if there are none.
func Changes(set, add map[string]string, remove []string) *networking.Headers_HeaderOperations {
	if len(set)+len(add)+len(remove) == 0 {
		return nil
	}
	return &networking.Headers_HeaderOperations{Set: some(set), Add: some(add), Remove: remove}
}

func some(all map[string]string) map[string]string {
	if len(all) == 0 {
		return nil
	}
	return all
}

// Both does the first changes, and then the second.
func Both(a, b *networking.Headers_HeaderOperations) *networking.Headers_HeaderOperations {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	set, add := map[string]string{}, map[string]string{}
	for _, each := range []*networking.Headers_HeaderOperations{a, b} {
		maps.Copy(set, each.GetSet())
		maps.Copy(add, each.GetAdd())
	}
	return Changes(set, add, slices.Concat(a.GetRemove(), b.GetRemove()))
}
