// Package resolvconf reads the file that says whom a machine asks for names.
package resolvconf

import (
	"net/netip"
	"slices"
	"strings"
)

// Path is where every program looks.
const Path = "/etc/resolv.conf"

// StubPath is where systemd-resolved tells whom it asks itself, when Path leads to its stub.
const StubPath = "/run/systemd/resolve/resolv.conf"

// Config is what such a file says. Lines that cannot be understood are passed over, as every resolver does.
type Config struct {
	Servers []netip.Addr
	Search  []string
	Options []string
}

// Parse reads a file.
func Parse(content []byte) Config {
	var c Config
	for line := range strings.Lines(string(content)) {
		fields := Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			if ip, err := netip.ParseAddr(fields[1]); err == nil && !slices.Contains(c.Servers, ip) {
				c.Servers = append(c.Servers, ip)
			}
		case "search":
			c.Search = fields[1:] // the last one counts
		case "domain":
			c.Search = fields[1:2]
		case "options":
			c.Options = append(c.Options, fields[1:]...)
		}
	}
	return c
}

// Fields are the words of a line, without its comment.
func Fields(line string) []string {
	if i := strings.IndexAny(line, "#;"); i >= 0 {
		line = line[:i]
	}
	return strings.Fields(line)
}

// Stub tells whether an address is one of those that systemd-resolved listens on.
func Stub(ip netip.Addr) bool {
	return ip == netip.AddrFrom4([4]byte{127, 0, 0, 53}) || ip == netip.AddrFrom4([4]byte{127, 0, 0, 54})
}
