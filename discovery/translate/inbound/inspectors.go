package inbound

import (
	"maps"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/listener"
)

// inspectors tell the chains of an inbound listener apart. They look only at ports with chains that
// need it: elsewhere the server may speak first. TLS comes before HTTP, which looks at nothing that
// is TLS.
func inspectors(chains []*listenerv3.FilterChain) []*listenerv3.ListenerFilter {
	tls, http := map[uint32]bool{}, map[uint32]bool{}
	for _, c := range chains {
		match := c.GetFilterChainMatch()
		port := match.GetDestinationPort().GetValue() // 0: all ports without chains of their own
		tls[port] = tls[port] || match.GetTransportProtocol() == listener.TLS
		http[port] = http[port] || slices.Contains(match.GetApplicationProtocols(), listener.PlaintextHTTP[0])
	}
	var out []*listenerv3.ListenerFilter
	if _, needed := split(tls); len(needed) > 0 {
		out = append(out, tlsInspectorFor(tls))
	}
	if unneeded, needed := split(http); len(needed) > 0 {
		out = append(out, except(listener.HTTPInspector, unneeded))
	}
	return out
}

// tlsInspectorFor leaves out ports, or, where ports are not looked at unless they are named, names
// them.
func tlsInspectorFor(ports map[uint32]bool) *listenerv3.ListenerFilter {
	unneeded, needed := split(ports)
	if ports[0] {
		return except(listener.TLSInspector, unneeded)
	}
	return &listenerv3.ListenerFilter{
		Name: listener.TLSInspector.GetName(), ConfigType: listener.TLSInspector.GetConfigType(),
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
