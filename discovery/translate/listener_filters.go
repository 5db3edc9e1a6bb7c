package translate

import (
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httpinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/http_inspector/v3"
	originaldstv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	originalsrcv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_src/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
)

// What listener filters tell filter chains apart by.
const rawBuffer = "raw_buffer"

// plaintextHTTP is what the HTTP inspector reports of requests in clear text.
var plaintextHTTP = []string{"http/1.1", "h2c"}

func listenerFilter(name string, config proto.Message) *listenerv3.ListenerFilter {
	return &listenerv3.ListenerFilter{Name: name, ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: pack(config)}}
}

var (
	// tlsInspector starts with a small buffer: a client hello is short.
	tlsInspector  = listenerFilter("envoy.filters.listener.tls_inspector", &tlsinspectorv3.TlsInspector{InitialReadBufferSize: u32(512)})
	httpInspector = listenerFilter("envoy.filters.listener.http_inspector", &httpinspectorv3.HttpInspector{})
	// proxyProtocol reads who connected to the load balancer in front, which says so first of all.
	proxyProtocol       = listenerFilter("envoy.filters.listener.proxy_protocol", &proxyprotocolv3.ProxyProtocol{})
	originalDestination = listenerFilter("envoy.filters.listener.original_dst", &originaldstv3.OriginalDst{})
	// originalSource marks its sockets, so that the redirection rules know them.
	originalSource = listenerFilter("envoy.filters.listener.original_src", &originalsrcv3.OriginalSrc{Mark: 1337})
)

// httpInspectorExcept does not wait for a first line on ports where the server may speak first.
func httpInspectorExcept(ports []uint32) *listenerv3.ListenerFilter {
	if len(ports) == 0 {
		return httpInspector
	}
	slices.Sort(ports)
	return &listenerv3.ListenerFilter{
		Name: httpInspector.GetName(), ConfigType: httpInspector.GetConfigType(), FilterDisabled: anyPortOf(ports),
	}
}

func anyPortOf(ports []uint32) *listenerv3.ListenerFilterChainMatchPredicate {
	rules := make([]*listenerv3.ListenerFilterChainMatchPredicate, len(ports))
	for i, port := range ports {
		rules[i] = &listenerv3.ListenerFilterChainMatchPredicate{
			Rule: &listenerv3.ListenerFilterChainMatchPredicate_DestinationPortRange{
				DestinationPortRange: &typev3.Int32Range{Start: int32(port), End: int32(port) + 1},
			},
		}
	}
	if len(rules) == 1 {
		return rules[0]
	}
	return &listenerv3.ListenerFilterChainMatchPredicate{
		Rule: &listenerv3.ListenerFilterChainMatchPredicate_OrMatch{
			OrMatch: &listenerv3.ListenerFilterChainMatchPredicate_MatchSet{Rules: rules},
		},
	}
}
