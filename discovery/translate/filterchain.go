package translate

import (
	"net/netip"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
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
		out.Metadata = message.MadeFrom(c.from)
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
			AddressPrefix: prefix.Addr().String(), PrefixLen: message.U32(uint32(prefix.Bits())),
		})
	}
	return m
}

// serverNames are sorted; "*" is none, which stands for any.
func (c chain) serverNames() []string {
	if slices.Contains(c.names, "*") {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(c.names)))
}

// prefixes are sorted, each once; that of the unspecified address is left out, since it stands for any.
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
		same := func(other netip.Prefix) bool { return sameRange(prefix, other) }
		if prefix.Addr().String() != mesh.Unspecified && !slices.ContainsFunc(out, same) {
			out = append(out, prefix)
		}
	}
	return out
}

// sameRange ignores the bits of addresses beyond their prefix, as Envoy does.
func sameRange(a, b netip.Prefix) bool { return a.Masked() == b.Masked() }

// keys are what Envoy looks for a chain by: each of its names, at each of its ranges. "" is any.
func (c chain) keys() (names, ranges []string) {
	names = c.serverNames()
	for _, prefix := range c.prefixes() {
		ranges = append(ranges, prefix.Masked().String())
	}
	if len(names) == 0 {
		names = []string{""}
	}
	if len(ranges) == 0 {
		ranges = []string{""}
	}
	return names, ranges
}

// conflicts reports whether two chains are for the same of some connections: Envoy refuses a listener with both.
func (c chain) conflicts(other chain) bool {
	names, ranges := c.keys()
	otherNames, otherRanges := other.keys()
	return c.transport == other.transport && slices.Equal(c.protocols, other.protocols) &&
		len(names) > len(less(names, otherNames)) && len(ranges) > len(less(ranges, otherRanges))
}

// without leaves of a chain what another is not for: its other names, and its names at other ranges.
func (c chain) without(other chain) (out []chain) {
	if !c.conflicts(other) {
		return []chain{c}
	}
	names, ranges := c.keys()
	otherNames, otherRanges := other.keys()
	if rest := less(names, otherNames); len(rest) > 0 {
		named := c
		named.names = rest
		out = append(out, named)
	}
	if rest := less(ranges, otherRanges); len(rest) > 0 {
		elsewhere := c
		elsewhere.ranges = rest
		if names[0] != "" {
			elsewhere.names = less(names, less(names, otherNames))
		}
		out = append(out, elsewhere)
	}
	return out
}

// less is a list without what is in another.
func less(list, without []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(without, s) })
}
