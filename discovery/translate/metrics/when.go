package metrics

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	dataaccesslogv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// isGRPC tells requests of gRPC from others, as Envoy does: by the type of their content. Inverted
// it is for the others. One regular expression costs less than three plain comparisons,
// each of which fetches the header (docs/performance.md).
func isGRPC(inverted bool) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_HeaderFilter{
		HeaderFilter: &accesslogv3.HeaderFilter{Header: &routev3.HeaderMatcher{
			Name: "content-type", InvertMatch: inverted, TreatMissingHeaderAsEmpty: true, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
				StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
					SafeRegex: &matcherv3.RegexMatcher{Regex: `application/grpc([+;].*)?`},
				}},
			},
		}},
	}}
}

func both(a, b *accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
		AndFilter: &accesslogv3.AndFilter{Filters: []*accesslogv3.AccessLogFilter{a, b}},
	}}
}

// The moments at which a TCP proxy logs.
var (
	atStart = atMoment(dataaccesslogv3.AccessLogType_TcpUpstreamConnected)
	atEnd   = atMoment(dataaccesslogv3.AccessLogType_TcpConnectionEnd)
)

// neverConnected is for connections that end without a beginning: nobody was there to take them.
var neverConnected = &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
	ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{"UF", "UH", "UO", "NR", "NC", "DF", "URX"}},
}}

// AtEnd narrows a filter of a TCP proxy's log, nil for none, to the ends of connections.
func AtEnd(filter *accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	if filter == nil {
		return atEnd
	}
	return both(atEnd, filter)
}

func atMoment(types ...dataaccesslogv3.AccessLogType) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_LogTypeFilter{
		LogTypeFilter: &accesslogv3.LogTypeFilter{Types: types},
	}}
}
