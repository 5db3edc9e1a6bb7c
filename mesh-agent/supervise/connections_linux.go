package supervise

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// What the kernel calls the states of a connection, in /proc/PID/net/tcp.
const (
	established = "01"
	listening   = "0A"
)

// socket is one of a process.
type socket struct {
	local, remote netip.AddrPort
	state         string
}

// socketsOf are the TCP sockets of a process.
func socketsOf(pid int) []socket {
	own := inodesOf(pid)
	var sockets []socket
	for _, table := range []string{"tcp", "tcp6"} {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(content)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || !own[fields[9]] {
				continue
			}
			sockets = append(sockets, socket{addressOf(fields[1]), addressOf(fields[2]), fields[3]})
		}
	}
	return sockets
}

// inodesOf are the numbers of the sockets that a process has open.
func inodesOf(pid int) map[string]bool {
	inodes := map[string]bool{}
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(folder) // none of a process that is gone
	for _, entry := range entries {
		target, _ := os.Readlink(folder + "/" + entry.Name())
		if inode, is := strings.CutPrefix(target, "socket:["); is {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return inodes
}

// addressOf reads an address as the kernel writes it: words of four bytes in the machine's order, which is the small end first on all that Envoy
// is made for, and a port.
func addressOf(text string) netip.AddrPort {
	address, port, _ := strings.Cut(text, ":")
	bytes, err := hex.DecodeString(address)
	if err != nil {
		return netip.AddrPort{}
	}
	for word := range slices.Chunk(bytes, 4) {
		slices.Reverse(word)
	}
	ip, _ := netip.AddrFromSlice(bytes)
	number, _ := strconv.ParseUint(port, 16, 16)
	return netip.AddrPortFrom(ip.Unmap(), uint16(number))
}

// portsOf are those that a process listens on, except for one address.
func portsOf(pid int, except string) map[uint16]bool {
	ports := map[uint16]bool{}
	for _, s := range socketsOf(pid) {
		if s.state == listening && s.local.String() != except {
			ports[s.local.Port()] = true
		}
	}
	return ports
}

// connectionsTo are the open connections of a process that others have opened to its ports: "10.0.0.9:50812 to 10.0.0.7:80".
func connectionsTo(pid int, ports map[uint16]bool) []string {
	var open []string
	for _, s := range socketsOf(pid) {
		if s.state == established && ports[s.local.Port()] {
			open = append(open, s.remote.String()+" to "+s.local.String())
		}
	}
	slices.Sort(open)
	return open
}
