// Package hostname compares hosts, any of which may be a wildcard: "*" or "*.example.com".
package hostname

import (
	"cmp"
	"strings"
)

// IsWildcard reports whether a host stands for many.
func IsWildcard(host string) bool { return strings.HasPrefix(host, "*") }

// Overlap reports whether two hosts share a name.
func Overlap(a, b string) bool {
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

// Within reports whether outer stands for every name that host stands for.
func Within(host, outer string) bool {
	if !IsWildcard(outer) {
		return host == outer
	}
	if IsWildcard(host) {
		return strings.HasSuffix(host[1:], outer[1:])
	}
	return strings.HasSuffix(host, outer[1:])
}

// Common is what two hosts have in common: the narrower of the two, "" if they share no name.
func Common(a, b string) string {
	switch {
	case Within(a, b):
		return a
	case Within(b, a):
		return b
	default:
		return ""
	}
}

// NarrowerFirst compares hosts by how many names they stand for: wildcards come last, and longer hosts
// first.
func NarrowerFirst(a, b string) int {
	if IsWildcard(a) != IsWildcard(b) {
		if IsWildcard(a) {
			return 1
		}
		return -1
	}
	return cmp.Compare(len(b), len(a))
}
