// Package ondemand has proxies ask for virtual hosts when a request first needs them.
//
// Such a proxy holds a request that no route is for, asks for the virtual host by the request's
// host, and goes on when it is told. That alone would never find a host that a virtual host for
// many covers, such as the one for unknown hosts: the request has a route there already. So the
// routes of a virtual host for many match only requests that have been asked about, and a filter
// behind the one that asks marks all of them.
package ondemand

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	setfilterstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	ondemandv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/on_demand/v3"
	setfilterstatehttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// The mark of a request that has been asked about.
const (
	askedState = "pgmesh.asked"
	askedValue = "yes"
)

var (
	askingFilter = message.HTTPFilter("envoy.filters.http.on_demand", &ondemandv3.OnDemand{})
	askedFilter  = message.HTTPFilter("pgmesh.asked", &setfilterstatehttpv3.Config{
		ClearRouteCache: true, // the route is looked for once more, now with the mark
		OnRequestHeaders: []*setfilterstatev3.FilterStateValue{{
			Key:        &setfilterstatev3.FilterStateValue_ObjectKey{ObjectKey: askedState},
			FactoryKey: "envoy.string",
			Value:      &setfilterstatev3.FilterStateValue_FormatString{FormatString: constantText(askedValue)},
		}},
	})
	asked = []*matcherv3.FilterStateMatcher{{Key: askedState, Matcher: &matcherv3.FilterStateMatcher_StringMatch{
		StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: askedValue}},
	}}}
)

func constantText(text string) *corev3.SubstitutionFormatString {
	return &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_TextFormatSource{
		TextFormatSource: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}},
	}}
}

// longestWait is how long a request waits for its virtual host. Envoy's only bound for that is the
// idle timeout of streams.
var longestWait = &durationpb.Duration{Seconds: 15}

// AskFirst has requests wait for their virtual host.
func AskFirst(m *hcmv3.HttpConnectionManager) {
	m.HttpFilters = append([]*hcmv3.HttpFilter{askingFilter, askedFilter}, m.GetHttpFilters()...)
	m.StreamIdleTimeout = longestWait
}

// Adapt changes a virtual host into what a proxy on demand is given.
func Adapt(host *routev3.VirtualHost) {
	forMany := slices.ContainsFunc(host.GetDomains(), func(domain string) bool { return strings.Contains(domain, "*") })
	for _, route := range host.GetRoutes() {
		if forMany {
			route.GetMatch().FilterState = append(route.GetMatch().GetFilterState(), asked...)
		}
		if to := route.GetRoute(); to != nil && to.GetIdleTimeout() == nil {
			to.IdleTimeout = message.NoDuration // longestWait was for the wait alone
		}
	}
}
