package translate

import (
	"maps"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httpinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/http_inspector/v3"
	originaldstv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	originalsrcv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_src/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// What listener filters tell filter chains apart by.
const rawBuffer = "raw_buffer"

// plaintextHTTP is what the HTTP inspector reports of requests in clear text.
var plaintextHTTP = []string{"http/1.1", "h2c"}

var (
	// tlsInspector starts with a small buffer: a client hello is short.
	tlsInspector  = message.ListenerFilter("envoy.filters.listener.tls_inspector", &tlsinspectorv3.TlsInspector{InitialReadBufferSize: message.U32(512)})
	httpInspector = message.ListenerFilter("envoy.filters.listener.http_inspector", &httpinspectorv3.HttpInspector{})
	// proxyProtocol reads who connected to the load balancer in front, which says so first of all.
	proxyProtocol       = message.ListenerFilter("envoy.filters.listener.proxy_protocol", &proxyprotocolv3.ProxyProtocol{})
	originalDestination = message.ListenerFilter("envoy.filters.listener.original_dst", &originaldstv3.OriginalDst{})
	// originalSource marks its sockets, so that the redirection rules know them.
	originalSource = message.ListenerFilter("envoy.filters.listener.original_src", &originalsrcv3.OriginalSrc{Mark: 1337})
)

// inspectors tell the chains of an inbound listener apart. They look only at ports with chains that need it: elsewhere the server may
// speak first. TLS comes before HTTP, which looks at nothing that is TLS.
func inspectors(chains []*listenerv3.FilterChain) []*listenerv3.ListenerFilter {
	tls, http := map[uint32]bool{}, map[uint32]bool{}
	for _, c := range chains {
		match := c.GetFilterChainMatch()
		port := match.GetDestinationPort().GetValue() // 0: all ports without chains of their own
		tls[port] = tls[port] || match.GetTransportProtocol() == tlsTransport
		http[port] = http[port] || slices.Contains(match.GetApplicationProtocols(), plaintextHTTP[0])
	}
	var out []*listenerv3.ListenerFilter
	if _, needed := split(tls); len(needed) > 0 {
		out = append(out, tlsInspectorFor(tls))
	}
	if unneeded, needed := split(http); len(needed) > 0 {
		out = append(out, except(httpInspector, unneeded))
	}
	return out
}

// tlsInspectorFor leaves out ports, or, where ports are not looked at unless they are named, names them.
func tlsInspectorFor(ports map[uint32]bool) *listenerv3.ListenerFilter {
	unneeded, needed := split(ports)
	if ports[0] {
		return except(tlsInspector, unneeded)
	}
	return &listenerv3.ListenerFilter{
		Name: tlsInspector.GetName(), ConfigType: tlsInspector.GetConfigType(),
		FilterDisabled: &listenerv3.ListenerFilterChainMatchPredicate{
			Rule: &listenerv3.ListenerFilterChainMatchPredicate_NotMatch{NotMatch: anyPortOf(needed)},
		},
	}
}

// split sorts ports into those that need an inspector and those that do not.
func split(ports map[uint32]bool) (unneeded, needed []uint32) {
	for _, port := range slices.Sorted(maps.Keys(ports)) {
		if ports[port] {
			needed = append(needed, port)
		} else {
			unneeded = append(unneeded, port)
		}
	}
	return unneeded, needed
}

func except(filter *listenerv3.ListenerFilter, ports []uint32) *listenerv3.ListenerFilter {
	if len(ports) == 0 {
		return filter
	}
	return &listenerv3.ListenerFilter{Name: filter.GetName(), ConfigType: filter.GetConfigType(), FilterDisabled: anyPortOf(ports)}
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
