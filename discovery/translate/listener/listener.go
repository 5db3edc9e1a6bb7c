// Package listener has what all listeners of a proxy are made of: addresses, listener filters, and
// filter chains that are not made yet.
package listener

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/discovery/translate/filter"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// ExtraAddresses are what a listener listens on beside its first address.
func ExtraAddresses(binds []string, port uint32) []*listenerv3.AdditionalAddress {
	out := make([]*listenerv3.AdditionalAddress, len(binds)-1)
	for i, bind := range binds[1:] {
		out[i] = &listenerv3.AdditionalAddress{Address: message.SocketAddress(bind, port)}
	}
	return out
}

// ExactBalance spreads new connections evenly over Envoy's threads, at the price of a lock.
func ExactBalance(wanted bool) *listenerv3.Listener_ConnectionBalanceConfig {
	if !wanted {
		return nil
	}
	return &listenerv3.Listener_ConnectionBalanceConfig{
		BalanceType: &listenerv3.Listener_ConnectionBalanceConfig_ExactBalance_{
			ExactBalance: &listenerv3.Listener_ConnectionBalanceConfig_ExactBalance{},
		},
	}
}

// AcceptOneByOne gives other threads a chance at a burst of connections, as in Istio.
var AcceptOneByOne = wrapperspb.UInt32(1)

// RefuseDirect is a chain that refuses connections to the listener's own port. It would forward
// them to itself without end.
func RefuseDirect(name string, port uint32) *listenerv3.FilterChain {
	return &listenerv3.FilterChain{
		Name:             name,
		FilterChainMatch: &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(port)},
		Filters:          []*listenerv3.Filter{filter.Refusal()},
	}
}
