package redirect

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// tcpSocket is one of this network's.
type tcpSocket struct {
	local     netip.AddrPort
	listening bool
	root      bool // it is root's
	inode     string
}

func tcpSockets() []tcpSocket {
	var out []tcpSocket
	for _, file := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
		text, _ := os.ReadFile(file) // without IPv6 there is no second
		out = append(out, readSockets(text)...)
	}
	return out
}

// readSockets reads the kernel's table of TCP sockets: number, local address, remote address, state, …; the eighth is the user, the tenth the inode.
func readSockets(text []byte) (out []tcpSocket) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 10 {
			continue
		}
		local, ok := readAddress(words[1])
		if ok {
			out = append(out, tcpSocket{local: local, listening: words[3] == "0A", root: words[7] == "0", inode: words[9]})
		}
	}
	return out
}

// readAddress reads 0100007F:1F90, whose address is in words of the machine's byte order; all that run this are little-endian.
func readAddress(word string) (at netip.AddrPort, ok bool) {
	address, port, found := strings.Cut(word, ":")
	raw, err := hex.DecodeString(address)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if !found || err != nil || err2 != nil || len(raw)%4 != 0 {
		return at, false
	}
	for i := 0; i < len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	ip, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(ip.Unmap(), uint16(number)), ok
}

// Nameservers are those of a resolv.conf.
func Nameservers(file string) []netip.Addr {
	text, _ := os.ReadFile(file) // without it there are none
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

// Addresses are this machine's.
func Addresses() []netip.Addr {
	var out []netip.Addr
	all, _ := net.InterfaceAddrs() // fails where there is no network
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p.Addr().Unmap())
		}
	}
	return out
}
