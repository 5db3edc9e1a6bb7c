package extauthz

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	setfilterstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	setfilterstatetcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// A connection that is older than its listener has the filters of the listener before, for minutes, and
// the routes of today: Envoy would pass over what a route says of a filter that is not there. So
// connections that have the filter are marked, and routes that need it are for marked ones alone.
const (
	mark   = "pgmesh.external_auth"
	marked = "yes"
)

// Mark marks connections.
var Mark = message.NetworkFilter("pgmesh.external_auth", &setfilterstatetcpv3.Config{
	OnNewConnection: []*setfilterstatev3.FilterStateValue{{
		Key:        &setfilterstatev3.FilterStateValue_ObjectKey{ObjectKey: mark},
		FactoryKey: "envoy.string",
		Value: &setfilterstatev3.FilterStateValue_FormatString{FormatString: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_TextFormatSource{
				TextFormatSource: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: marked}},
			},
		}},
	}},
})

// Marked matches requests on marked connections.
func Marked() *matcherv3.FilterStateMatcher {
	return &matcherv3.FilterStateMatcher{Key: mark, Matcher: &matcherv3.FilterStateMatcher_StringMatch{StringMatch: message.Exactly(marked)}}
}
