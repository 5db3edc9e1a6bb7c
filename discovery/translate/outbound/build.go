package outbound

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/filter"
	"github.com/pgmesh/pgmesh/discovery/translate/listener"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

func (l *planned) build(c filter.Context) *listenerv3.Listener {
	out := &listenerv3.Listener{
		Name:                             naming.Listener(l.Binds[0], l.port),
		Address:                          message.BindAddress(l.Binds[0], l.port),
		AdditionalAddresses:              listener.ExtraAddresses(l.Binds, l.port),
		TrafficDirection:                 corev3.TrafficDirection_OUTBOUND,
		ContinueOnListenerFiltersTimeout: true,
		ConnectionBalanceConfig:          listener.ExactBalance(c.Proxy.OutboundExactBalance),
	}
	if l.Explicit {
		out.MaxConnectionsToAcceptPerSocketEvent = listener.AcceptOneByOne
	} else {
		out.BindToPort = message.No
	}
	inspect(c.View, out, l.chains)
	addChains(c, out, l.chains)
	return out
}

// inspect adds the listener filters that the chains are told apart by.
func inspect(v view.View, l *listenerv3.Listener, chains []listener.Chain) {
	l.ListenerFiltersTimeout = message.NoDuration
	if slices.ContainsFunc(chains, func(c listener.Chain) bool { return len(c.Names) > 0 }) {
		l.ListenerFilters = append(l.ListenerFilters, listener.TLSInspector)
	}
	if slices.ContainsFunc(chains, func(c listener.Chain) bool { return len(c.Protocols) > 0 }) {
		l.ListenerFilters = append(l.ListenerFilters, listener.HTTPInspector)
		l.ListenerFiltersTimeout = v.Config.GetProtocolDetectionTimeout()
	}
}

// addChains gives the listener its chains. What none of them is for goes where connections to
// unknown destinations go.
func addChains(c filter.Context, l *listenerv3.Listener, chains []listener.Chain) {
	for _, chain := range chains {
		if chain.MatchesAll() {
			l.DefaultFilterChain = chain.Build()
		} else {
			l.FilterChains = append(l.FilterChains, chain.Build())
		}
	}
	switch {
	case l.GetDefaultFilterChain() == nil:
		l.DefaultFilterChain = &listenerv3.FilterChain{
			Name: "PassthroughFilterChain", FilterChainMatch: &listenerv3.FilterChainMatch{}, Filters: c.Unmatched(),
		}
	case len(l.GetFilterChains()) == 0:
		l.FilterChains, l.DefaultFilterChain = []*listenerv3.FilterChain{l.GetDefaultFilterChain()}, nil
	}
}
