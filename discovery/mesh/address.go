package mesh

import "net/netip"

// IsAddress reports whether s is an IP address.
func IsAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}
