package redirect

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ParsePrefixes parses addresses and ranges: 10.0.0.0/8, 192.0.2.7, fd00::/8.
func ParsePrefixes(words []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, word := range words {
		word = strings.TrimSpace(word)
		if a, err := netip.ParseAddr(word); err == nil && a.Zone() == "" {
			out = append(out, hostPrefix(a))
			continue
		}
		p, err := netip.ParsePrefix(word)
		if err != nil {
			return nil, fmt.Errorf("%q is no range of addresses: write 10.0.0.0/8, fd00::/8, or an address", word)
		}
		out = append(out, p)
	}
	return disjoint(out), nil
}

func hostPrefix(a netip.Addr) netip.Prefix {
	a = a.Unmap()
	return netip.PrefixFrom(a, a.BitLen())
}

// disjoint removes prefixes that another contains: nft's sets must not overlap.
func disjoint(prefixes []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range prefixes {
		p = p.Masked()
		contained := slices.ContainsFunc(out, func(q netip.Prefix) bool { return q.Bits() <= p.Bits() && q.Overlaps(p) })
		if contained {
			continue
		}
		out = slices.DeleteFunc(out, p.Overlaps)
		out = append(out, p)
	}
	return out
}

// filter returns the prefixes of the family.
func (f family) filter(prefixes []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range prefixes {
		if p.Addr().Is4() == (f == ipv4) {
			out = append(out, p)
		}
	}
	return out
}

type family int

const (
	ipv4 family = 4
	ipv6 family = 6
)

func (p Plan) families() []family {
	var out []family
	if p.IPv4 {
		out = append(out, ipv4)
	}
	if p.IPv6 {
		out = append(out, ipv6)
	}
	return out
}
