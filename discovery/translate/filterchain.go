package translate

import (
	"net/netip"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// chain is a filter chain to be: what it is for, and the filters.
type chain struct {
	names     []string // of the server, for TLS
	ranges    []string // addresses or CIDR ranges
	protocols []string // as the HTTP inspector reports them
	transport string

	tls     *corev3.TransportSocket // nil where TLS does not end here
	filters []*listenerv3.Filter
	from    *kinds.Resource
}

// handshakeTimeout bounds how long a client may take to get through a chain's transport socket.
var handshakeTimeout = durationpb.New(15 * time.Second)

func (c chain) build() *listenerv3.FilterChain {
	out := &listenerv3.FilterChain{
		Filters: c.filters, FilterChainMatch: c.match(), TransportSocket: c.tls, TransportSocketConnectTimeout: handshakeTimeout,
	}
	if c.from != nil {
		out.Metadata = madeFrom(c.from)
	}
	return out
}

// matchesAll reports whether the chain is for whatever no other chain is for.
func (c chain) matchesAll() bool {
	return len(c.serverNames()) == 0 && len(c.protocols) == 0 && c.transport == "" && len(c.ranges) == 0
}

func (c chain) match() *listenerv3.FilterChainMatch {
	if c.matchesAll() {
		return nil
	}
	m := &listenerv3.FilterChainMatch{
		ServerNames: c.serverNames(), ApplicationProtocols: c.protocols, TransportProtocol: c.transport,
	}
	for _, prefix := range c.prefixes() {
		m.PrefixRanges = append(m.PrefixRanges, &corev3.CidrRange{
			AddressPrefix: prefix.Addr().String(), PrefixLen: u32(uint32(prefix.Bits())),
		})
	}
	return m
}

// serverNames are sorted; "*" is none, which stands for any.
func (c chain) serverNames() []string {
	if slices.Contains(c.names, "*") {
		return nil
	}
	return slices.Sorted(slices.Values(c.names))
}

// prefixes are sorted; that of the unspecified address is left out, since it stands for any.
func (c chain) prefixes() []netip.Prefix {
	var out []netip.Prefix
	for _, r := range slices.Sorted(slices.Values(c.ranges)) {
		prefix, err := netip.ParsePrefix(r)
		if err != nil {
			address, invalid := netip.ParseAddr(r)
			if invalid != nil {
				continue
			}
			prefix = netip.PrefixFrom(address, address.BitLen())
		}
		if prefix.Addr().String() != mesh.Unspecified {
			out = append(out, prefix)
		}
	}
	return out
}

// sameRange ignores the bits of addresses beyond their prefix, as Envoy does.
func sameRange(a, b netip.Prefix) bool { return a.Masked() == b.Masked() }

// conflicts reports whether two chains are for the same connections: Envoy refuses a listener with both.
func (c chain) conflicts(other chain) bool {
	return c.transport == other.transport && slices.Equal(c.protocols, other.protocols) &&
		slices.Equal(c.serverNames(), other.serverNames()) &&
		slices.EqualFunc(c.prefixes(), other.prefixes(), sameRange)
}
