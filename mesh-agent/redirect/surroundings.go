package redirect

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// SSHPorts are 22, those that sshd is told to listen on, those that it does listen on, and those of its open connections.
func SSHPorts() Ports {
	ports := []uint16{22}
	for _, pattern := range []string{
		"/etc/ssh/sshd_config", "/etc/ssh/sshd_config.d/*.conf",
		"/etc/systemd/system/ssh*.socket", "/etc/systemd/system/ssh*.socket.d/*.conf",
	} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			text, _ := os.ReadFile(file) // one that we may not read says nothing
			ports = append(ports, toldPorts(text)...)
		}
	}
	if words := strings.Fields(os.Getenv("SSH_CONNECTION")); len(words) == 4 {
		ports = appendPort(ports, words[3])
	}
	daemon := socketsOf("sshd", "sshd-session", "dropbear")
	for _, s := range tcpSockets() {
		if daemon[s.inode] {
			ports = append(ports, s.local.Port())
		}
	}
	return PortsOf(ports...)
}

// told is Port 2222 or ListenAddress [::]:2222 of sshd, or ListenStream=0.0.0.0:2222 of systemd.
var told = regexp.MustCompile(`(?im)^[ \t]*(?:port[ \t=]+|listenaddress[ \t=]+\S*:|listenstream[ \t]*=[ \t]*(?:\S*:)?)(\d+)[ \t]*$`)

func toldPorts(text []byte) (ports []uint16) {
	for _, found := range told.FindAllSubmatch(text, -1) {
		ports = appendPort(ports, string(found[1]))
	}
	return ports
}

func appendPort(ports []uint16, word string) []uint16 {
	port, err := strconv.ParseUint(word, 10, 16)
	if err != nil {
		return ports
	}
	return append(ports, uint16(port))
}

// socketsOf are the inodes of the sockets that programs of these names have.
func socketsOf(names ...string) map[string]bool {
	found := map[string]bool{}
	processes, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, comm := range processes {
		name, _ := os.ReadFile(comm)
		if !slices.Contains(names, strings.TrimSpace(string(name))) {
			continue
		}
		files, _ := filepath.Glob(filepath.Join(filepath.Dir(comm), "fd", "*"))
		for _, file := range files {
			target, _ := os.Readlink(file)
			if inode, ok := strings.CutPrefix(target, "socket:["); ok {
				found[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	return found
}

// tcpSocket is one of this network's.
type tcpSocket struct {
	local     netip.AddrPort
	listening bool
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

// readSockets reads the kernel's table of TCP sockets: number, local address, remote address, state, …; the tenth is the inode.
func readSockets(text []byte) (out []tcpSocket) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 10 {
			continue
		}
		local, ok := readAddress(words[1])
		if ok {
			out = append(out, tcpSocket{local: local, listening: words[3] == "0A", inode: words[9]})
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
