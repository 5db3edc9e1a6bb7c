package redirect

import (
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/mesh-agent/host/ownmark"
	"github.com/pgmesh/pgmesh/mesh-agent/host/sockets"
)

// SSH finds the ports through which people log in to this machine.
type SSH struct {
	mu    sync.Mutex
	known map[sockets.Inode]bool // whether a socket of root's speaks SSH
}

// Ports returns 22, the ports in the configuration of sshd, those it listens on, and those of its
// open connections. An agent that is not root can read neither sshd's files nor the owners of
// sockets, so it connects once to each of root's listening sockets: an SSH server speaks first.
func (s *SSH) Ports() Ports {
	ports := []uint16{22}
	for _, pattern := range []string{
		"/etc/ssh/sshd_config", "/etc/ssh/sshd_config.d/*.conf",
		"/etc/systemd/system/ssh*.socket", "/etc/systemd/system/ssh*.socket.d/*.conf",
	} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			text, _ := os.ReadFile(file) // unreadable files are skipped
			ports = append(ports, configuredPorts(text)...)
		}
	}
	if words := strings.Fields(os.Getenv("SSH_CONNECTION")); len(words) == 4 { //nolint:forbidigo // sshd sets it
		ports = appendPort(ports, words[3])
	}
	all, _ := sockets.TCP() // without the kernel's answer, the files have to do
	daemon := socketsOf("sshd", "sshd-session", "dropbear")
	speak := s.sshSockets(all)
	for _, socket := range all {
		if daemon[socket.Inode] || speak[socket.Inode] {
			ports = append(ports, socket.Local.Port())
		}
	}
	return PortsOf(ports...)
}

// sshSockets returns root's listening sockets that speak SSH.
func (s *SSH) sshSockets(all []sockets.Socket) map[sockets.Inode]bool {
	if os.Geteuid() == 0 {
		return nil // root sees which process owns a socket
	}
	return s.probe(all)
}

func (s *SSH) probe(all []sockets.Socket) map[sockets.Inode]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := map[sockets.Inode]bool{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, socket := range all {
		if !socket.Listening || socket.UID != 0 {
			continue
		}
		if known, asked := s.known[socket.Inode]; asked {
			now[socket.Inode] = known
			continue
		}
		asking.Go(func() {
			speaks := speaksSSH(socket.Local)
			mu.Lock()
			defer mu.Unlock()
			now[socket.Inode] = speaks
		})
	}
	asking.Wait()
	s.known = now
	return now
}

// greetingTimeout bounds the wait for a server's greeting, which SSH sends at once.
const greetingTimeout = 300 * time.Millisecond

func speaksSSH(at netip.AddrPort) bool {
	ip := at.Addr()
	switch {
	case ip == netip.IPv4Unspecified():
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case ip.IsUnspecified():
		ip = netip.IPv6Loopback()
	}
	conn, err := (&net.Dialer{Timeout: greetingTimeout, Control: ownmark.Control}).Dial("tcp", netip.AddrPortFrom(ip, at.Port()).String())
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(greetingTimeout))
	greeting := make([]byte, len("SSH-"))
	n, _ := conn.Read(greeting)
	return string(greeting[:n]) == "SSH-"
}

// portDirective matches sshd's Port 2222 and ListenAddress [::]:2222, and systemd's
// ListenStream=0.0.0.0:2222.
var portDirective = regexp.MustCompile(`(?im)^[ \t]*(?:port[ \t=]+|listenaddress[ \t=]+\S*:|listenstream[ \t]*=[ \t]*(?:\S*:)?)(\d+)[ \t]*$`)

func configuredPorts(text []byte) (ports []uint16) {
	for _, found := range portDirective.FindAllSubmatch(text, -1) {
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

// socketsOf returns the sockets of programs with these names.
func socketsOf(names ...string) map[sockets.Inode]bool {
	found := map[sockets.Inode]bool{}
	processes, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, comm := range processes {
		name, _ := os.ReadFile(comm)
		if slices.Contains(names, strings.TrimSpace(string(name))) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(comm))) // the pattern ensures digits
			maps.Copy(found, sockets.Of(pid))
		}
	}
	return found
}
