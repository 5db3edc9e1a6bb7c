// Package resolvconf reads resolv.conf, the file that names a machine's DNS servers.
package resolvconf

import (
	"net/netip"
	"slices"
	"strings"
)

// Path is the file that every resolver reads.
const Path = "/etc/resolv.conf"

// StubPath is where systemd-resolved lists its upstream servers when Path names only its stub.
const StubPath = "/run/systemd/resolve/resolv.conf"

// Config is the content of such a file. Lines that make no sense are skipped, as every resolver
// does.
type Config struct {
	Servers []netip.Addr
	Search  []string
	Options []string
}

// Parse parses the content of a resolv.conf.
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
			c.Search = fields[1:] // the last search or domain line wins
		case "domain":
			c.Search = fields[1:2]
		case "options":
			c.Options = append(c.Options, fields[1:]...)
		}
	}
	return c
}

// Fields returns the words of a line without its comment.
func Fields(line string) []string {
	if i := strings.IndexAny(line, "#;"); i >= 0 {
		line = line[:i]
	}
	return strings.Fields(line)
}

// Stub reports whether systemd-resolved's stub listens on ip.
func Stub(ip netip.Addr) bool {
	return ip == netip.AddrFrom4([4]byte{127, 0, 0, 53}) || ip == netip.AddrFrom4([4]byte{127, 0, 0, 54})
}
