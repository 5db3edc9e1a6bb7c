package mesh

import (
	"net/netip"
	"strings"
)

// IsWildcard reports whether a host stands for many: "*" or "*.example.com".
func IsWildcard(host string) bool { return strings.HasPrefix(host, "*") }

// HostsOverlap reports whether two hosts, either of which may be a wildcard, share a name.
func HostsOverlap(a, b string) bool {
	switch {
	case IsWildcard(a) && IsWildcard(b):
		return strings.HasSuffix(a[1:], b[1:]) || strings.HasSuffix(b[1:], a[1:])
	case IsWildcard(a):
		return strings.HasSuffix(b, a[1:])
	case IsWildcard(b):
		return strings.HasSuffix(a, b[1:])
	default:
		return a == b
	}
}

// HostWithin reports whether outer stands for every name that host stands for.
func HostWithin(host, outer string) bool {
	if !IsWildcard(outer) {
		return host == outer
	}
	if IsWildcard(host) {
		return strings.HasSuffix(host[1:], outer[1:])
	}
	return strings.HasSuffix(host, outer[1:])
}

// IsAddress reports whether s is an IP address.
func IsAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}
