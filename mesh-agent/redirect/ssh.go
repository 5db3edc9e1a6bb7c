package redirect

import (
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

	"github.com/pgmesh/pgmesh/mesh-agent/ownmark"
)

// SSH finds the ports that people get on this machine by.
type SSH struct {
	mu    sync.Mutex
	asked map[string]bool // which of root's sockets speak SSH, by inode
}

// Ports are 22, those that sshd is told to listen on, those where it does, and those of its open connections. An agent that is not root may look
// neither into sshd's files nor at who has a socket, so those of root's sockets that it can connect to are asked once: SSH speaks first.
func (s *SSH) Ports() Ports {
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
	sockets := tcpSockets()
	daemon := socketsOf("sshd", "sshd-session", "dropbear")
	speak := s.speaking(sockets)
	for _, socket := range sockets {
		if daemon[socket.inode] || speak[socket.inode] {
			ports = append(ports, socket.local.Port())
		}
	}
	return PortsOf(ports...)
}

// speaking are those that speak SSH, of the sockets that root listens at.
func (s *SSH) speaking(sockets []tcpSocket) map[string]bool {
	if os.Geteuid() == 0 {
		return nil // root sees who has which socket
	}
	return s.ask(sockets)
}

func (s *SSH) ask(sockets []tcpSocket) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := map[string]bool{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, socket := range sockets {
		if !socket.listening || !socket.root {
			continue
		}
		if known, asked := s.asked[socket.inode]; asked {
			now[socket.inode] = known
			continue
		}
		asking.Go(func() {
			speaks := speaksSSH(socket.local)
			mu.Lock()
			defer mu.Unlock()
			now[socket.inode] = speaks
		})
	}
	asking.Wait()
	s.asked = now
	return now
}

// greetsWithin is how long a server may take to say that it is one of SSH, which it does at once.
const greetsWithin = 300 * time.Millisecond

func speaksSSH(at netip.AddrPort) bool {
	ip := at.Addr()
	switch {
	case ip == netip.IPv4Unspecified():
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case ip.IsUnspecified():
		ip = netip.IPv6Loopback()
	}
	conn, err := (&net.Dialer{Timeout: greetsWithin, Control: ownmark.Control}).Dial("tcp", netip.AddrPortFrom(ip, at.Port()).String())
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(greetsWithin))
	greeting := make([]byte, len("SSH-"))
	n, _ := conn.Read(greeting)
	return string(greeting[:n]) == "SSH-"
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
