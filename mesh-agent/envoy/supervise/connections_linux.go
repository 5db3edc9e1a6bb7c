package supervise

import (
	"slices"

	"github.com/pgmesh/pgmesh/mesh-agent/host/sockets"
)

// socketsOf returns the TCP sockets of a process in this process's network namespace.
func socketsOf(pid int) []sockets.Socket {
	own := sockets.Of(pid)
	all, _ := sockets.TCP() // without the kernel's answer, Envoy's own count has to do
	return slices.DeleteFunc(all, func(s sockets.Socket) bool { return !own[s.Inode] })
}

// portsOf returns the ports that a process listens on, except for one address.
func portsOf(pid int, except string) map[uint16]bool {
	ports := map[uint16]bool{}
	for _, s := range socketsOf(pid) {
		if s.Listening && s.Local.String() != except {
			ports[s.Local.Port()] = true
		}
	}
	return ports
}

// connectionsTo returns the open connections that others made to a process's ports, as in
// "10.0.0.9:50812 to 10.0.0.7:80".
func connectionsTo(pid int, ports map[uint16]bool) []string {
	var open []string
	for _, s := range socketsOf(pid) {
		if !s.Listening && ports[s.Local.Port()] {
			open = append(open, s.Remote.String()+" to "+s.Local.String())
		}
	}
	slices.Sort(open)
	return open
}
