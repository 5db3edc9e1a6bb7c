package redirect

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// Nameservers returns the nameservers in a resolv.conf.
func Nameservers(file string) []netip.Addr {
	text, _ := os.ReadFile(file) // a missing file has none
	var out []netip.Addr
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(words[1]); err == nil && !slices.Contains(out, a.WithZone("")) {
			out = append(out, a.WithZone(""))
		}
	}
	return out
}

// Addresses returns this machine's addresses.
func Addresses() []netip.Addr {
	var out []netip.Addr
	all, _ := net.InterfaceAddrs() // fails without a network
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p.Addr().Unmap())
		}
	}
	return out
}
