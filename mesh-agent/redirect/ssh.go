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

	"github.com/pgmesh/pgmesh/mesh-agent/ownmark"
	"github.com/pgmesh/pgmesh/mesh-agent/sockets"
)

// SSH finds the ports that people get on this machine by.
type SSH struct {
	mu    sync.Mutex
	asked map[sockets.Inode]bool // which of root's sockets speak SSH
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
	all, _ := sockets.TCP() // if the kernel does not tell, the files have to do
	daemon := socketsOf("sshd", "sshd-session", "dropbear")
	speak := s.speaking(all)
	for _, socket := range all {
		if daemon[socket.Inode] || speak[socket.Inode] {
			ports = append(ports, socket.Local.Port())
		}
	}
	return PortsOf(ports...)
}

// speaking are those that speak SSH, of the sockets that root listens at.
func (s *SSH) speaking(all []sockets.Socket) map[sockets.Inode]bool {
	if os.Geteuid() == 0 {
		return nil // root sees who has which socket
	}
	return s.ask(all)
}

func (s *SSH) ask(all []sockets.Socket) map[sockets.Inode]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := map[sockets.Inode]bool{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, socket := range all {
		if !socket.Listening || socket.UID != 0 {
			continue
		}
		if known, asked := s.asked[socket.Inode]; asked {
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

// socketsOf are those that programs of these names have.
func socketsOf(names ...string) map[sockets.Inode]bool {
	found := map[sockets.Inode]bool{}
	processes, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, comm := range processes {
		name, _ := os.ReadFile(comm)
		if slices.Contains(names, strings.TrimSpace(string(name))) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(comm))) // digits
			maps.Copy(found, sockets.Of(pid))
		}
	}
	return found
}
