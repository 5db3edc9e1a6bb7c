package listener

import (
	"net/netip"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/kinds"
)

// Chain is a filter chain that is not made yet: what it is for, and its filters.
type Chain struct {
	Names     []string // of the server, for TLS
	Ranges    []string // addresses or CIDR ranges
	Protocols []string // as the HTTP inspector reports them
	Transport string

	TLS     *corev3.TransportSocket // nil where TLS does not end here
	Filters []*listenerv3.Filter
	From    *kinds.Resource
}

// handshakeTimeout bounds how long a client may take for the handshake of a transport socket.
var handshakeTimeout = durationpb.New(15 * time.Second)

// Build makes the chain.
func (c Chain) Build() *listenerv3.FilterChain {
	out := &listenerv3.FilterChain{
		Filters: c.Filters, FilterChainMatch: c.match(), TransportSocket: c.TLS, TransportSocketConnectTimeout: handshakeTimeout,
	}
	if c.From != nil {
		out.Metadata = message.MadeFrom(c.From)
	}
	return out
}

// MatchesAll reports whether the chain is for all that no other chain is for.
func (c Chain) MatchesAll() bool {
	return len(c.serverNames()) == 0 && len(c.Protocols) == 0 && c.Transport == "" && len(c.Ranges) == 0
}

func (c Chain) match() *listenerv3.FilterChainMatch {
	if c.MatchesAll() {
		return nil
	}
	m := &listenerv3.FilterChainMatch{
		ServerNames: c.serverNames(), ApplicationProtocols: c.Protocols, TransportProtocol: c.Transport,
	}
	for _, prefix := range c.prefixes() {
		m.PrefixRanges = append(m.PrefixRanges, &corev3.CidrRange{
			AddressPrefix: prefix.Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(prefix.Bits())),
		})
	}
	return m
}

// serverNames are sorted. "*" makes them none, which means any.
func (c Chain) serverNames() []string {
	if slices.Contains(c.Names, "*") {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(c.Names)))
}

// prefixes are sorted, each once. That of the unspecified address, which means any, is left out.
func (c Chain) prefixes() []netip.Prefix {
	var out []netip.Prefix
	for _, r := range slices.Sorted(slices.Values(c.Ranges)) {
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

// keys are what Envoy finds a chain by: each of its names, at each of its ranges. "" is any.
func (c Chain) keys() (names, ranges []string) {
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

// conflicts reports whether some connections would fit two chains equally well. Envoy refuses a
// listener with both.
func (c Chain) conflicts(other Chain) bool {
	names, ranges := c.keys()
	otherNames, otherRanges := other.keys()
	return c.Transport == other.Transport && slices.Equal(c.Protocols, other.Protocols) &&
		len(names) > len(less(names, otherNames)) && len(ranges) > len(less(ranges, otherRanges))
}

// Without is what remains of a chain beside another: its other names, and the names that both have
// at other ranges.
func (c Chain) Without(other Chain) (out []Chain) {
	if !c.conflicts(other) {
		return []Chain{c}
	}
	names, ranges := c.keys()
	otherNames, otherRanges := other.keys()
	if rest := less(names, otherNames); len(rest) > 0 {
		named := c
		named.Names = rest
		out = append(out, named)
	}
	if rest := less(ranges, otherRanges); len(rest) > 0 {
		elsewhere := c
		elsewhere.Ranges = rest
		if names[0] != "" {
			elsewhere.Names = less(names, less(names, otherNames))
		}
		out = append(out, elsewhere)
	}
	return out
}

// less is a list without the texts of another.
func less(list, without []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(without, s) })
}
