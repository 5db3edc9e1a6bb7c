// Package places says where a program may connect to when others decide where: those who write
// configuration may be tenants, and what is at an address is up to whoever is there. So a client
// of this package asks no address at which a machine or a cloud tells its own secrets.
package places

import (
	"fmt"
	"net/netip"
)

// metadata are addresses at which clouds give machines their credentials, and which are not
// link-local.
var metadata = prefixes("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128", "fd20:ce::254/128")

// translators are prefixes of IPv6 addresses that end in an IPv4 address.
var translators = prefixes("64:ff9b::/96")

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// Places says where something may be fetched from.
type Places struct {
	what, flags      string
	allowed, refused []netip.Prefix
}

// New returns the places that what, such as "keys", is fetched from. The flags --PREFIX-allow-addresses
// and --PREFIX-refuse-addresses have allowed and refused.
func New(what, prefix string, allowed, refused []string) (p Places, err error) {
	p.what, p.flags = what, prefix
	if p.allowed, err = parsePrefixes(prefix+allowFlag, allowed); err == nil {
		p.refused, err = parsePrefixes(prefix+refuseFlag, refused)
	}
	return p, err
}

func parsePrefixes(flag string, texts []string) (out []netip.Prefix, err error) {
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if ip, single := netip.ParseAddr(text); single == nil {
			prefix, err = netip.PrefixFrom(ip, ip.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("--%s: %q is no range of addresses: write it as 10.0.0.0/8", flag, text)
		}
		out = append(out, prefix.Masked())
	}
	return out, nil
}

// IsMetadata reports whether clouds give machines their credentials at an address that is not
// link-local.
func IsMetadata(ip netip.Addr) bool { return within(metadata, ip) }

// Plain is the address that a connection to another one ends at: one of IPv4, if it is written in
// one of IPv6.
func Plain(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if within(translators, ip) {
		sixteen := ip.As16()
		ip, _ = netip.AddrFromSlice(sixteen[12:])
	}
	return ip
}

func within(prefixes []netip.Prefix, ip netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// Judge reports why no connection may be made to an address and port; nil if one may.
func (p Places) Judge(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%s is no address", address)
	}
	ip := Plain(at.Addr())
	var what string
	switch {
	case within(p.refused, ip):
		return fmt.Errorf("the address %s is one that --%s-refuse-addresses refuses", ip, p.flags)
	case within(p.allowed, ip):
		return nil
	case ip.IsLoopback():
		what = "loopback"
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), ip.IsUnspecified(), ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		what = "not that of a single machine elsewhere"
	case IsMetadata(ip):
		what = "at which clouds serve metadata"
	default:
		return nil
	}
	return fmt.Errorf("the address %s is %s, where %s are not fetched from unless --%s-allow-addresses has it", ip, what, p.what, p.flags)
}
