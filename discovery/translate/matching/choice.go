package matching

import (
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	"google.golang.org/protobuf/proto"
)

// Choice is what Envoy does with a datagram: the same with all, or what conditions say.
type Choice struct{ on *xdsmatcherv3.Matcher_OnMatch }

// Do is a choice without conditions.
func Do(name string, action proto.Message) Choice {
	return Choice{&xdsmatcherv3.Matcher_OnMatch{OnMatch: &xdsmatcherv3.Matcher_OnMatch_Action{Action: extension(name, action)}}}
}

// If chooses by a condition.
func If(c Condition, then, otherwise Choice) Choice {
	if c.asked == nil {
		if c.holds {
			return then
		}
		return otherwise
	}
	return Choice{&xdsmatcherv3.Matcher_OnMatch{OnMatch: &xdsmatcherv3.Matcher_OnMatch_Matcher{Matcher: &xdsmatcherv3.Matcher{
		MatcherType: &xdsmatcherv3.Matcher_MatcherList_{MatcherList: &xdsmatcherv3.Matcher_MatcherList{
			Matchers: []*xdsmatcherv3.Matcher_MatcherList_FieldMatcher{{Predicate: c.asked, OnMatch: then.on}},
		}},
		OnNoMatch: otherwise.on,
	}}}}
}

// Matcher is the choice as Envoy takes it.
func (c Choice) Matcher() *xdsmatcherv3.Matcher {
	if m := c.on.GetMatcher(); m != nil {
		return m
	}
	return &xdsmatcherv3.Matcher{OnNoMatch: c.on}
}
