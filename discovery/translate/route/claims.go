package route

import (
	"strings"

	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/jwt"
)

// claimHeader begins the name of a "header" that stands for a claim of the request's token:
// @request.auth.claims.group.id, or @request.auth.claims[group][id] where names have dots.
const claimHeader = "@request.auth.claims"

// claimPath is the path to the claim that a header stands for, or nil for a real header.
func claimPath(header string) []string {
	if !strings.HasPrefix(strings.ToLower(header), claimHeader) {
		return nil
	}
	name := header[len(claimHeader):]
	switch {
	case len(name) > 1 && name[0] == '.':
		return strings.Split(name[1:], ".")
	case len(name) > 2 && name[0] == '[' && name[len(name)-1] == ']':
		return strings.Split(name[1:len(name)-1], "][")
	default:
		return nil
	}
}

// claimMatch looks at what the filter that checks tokens has noted. A claim may be a list: one
// element is enough.
func claimMatch(path []string, in *networking.StringMatch) *matcherv3.MetadataMatcher {
	out := &matcherv3.MetadataMatcher{Filter: jwt.Filter}
	for _, key := range append([]string{jwt.Payload}, path...) {
		out.Path = append(out.Path, &matcherv3.MetadataMatcher_PathSegment{
			Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: key},
		})
	}
	if asksPresence(in) {
		out.Value = &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_PresentMatch{PresentMatch: true}}
		return out
	}
	value := &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: stringMatch(in)}}
	element := &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_ListMatch{ListMatch: &matcherv3.ListMatcher{
		MatchPattern: &matcherv3.ListMatcher_OneOf{OneOf: value},
	}}}
	out.Value = &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_OrMatch{OrMatch: &matcherv3.OrMatcher{
		ValueMatchers: []*matcherv3.ValueMatcher{element, value},
	}}}
	return out
}

// claimMatches are those of a rule's headers that stand for claims.
func claimMatches(in *networking.HTTPMatchRequest) []*matcherv3.MetadataMatcher {
	var out []*matcherv3.MetadataMatcher
	for name, m := range inOrder(in.GetHeaders()) {
		if path := claimPath(name); path != nil {
			out = append(out, claimMatch(path, m))
		}
	}
	for name, m := range inOrder(in.GetWithoutHeaders()) {
		if path := claimPath(name); path != nil {
			match := claimMatch(path, m)
			match.Invert = true
			out = append(out, match)
		}
	}
	return out
}
