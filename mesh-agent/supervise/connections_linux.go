package supervise

import (
	"slices"

	"github.com/pgmesh/pgmesh/mesh-agent/sockets"
)

// socketsOf are the TCP sockets of a process, of the same network as this one.
func socketsOf(pid int) []sockets.Socket {
	own := sockets.Of(pid)
	all, _ := sockets.TCP() // where the kernel does not tell, what Envoy says has to do
	return slices.DeleteFunc(all, func(s sockets.Socket) bool { return !own[s.Inode] })
}

// portsOf are those that a process listens on, except for one address.
func portsOf(pid int, except string) map[uint16]bool {
	ports := map[uint16]bool{}
	for _, s := range socketsOf(pid) {
		if s.Listening && s.Local.String() != except {
			ports[s.Local.Port()] = true
		}
	}
	return ports
}

// connectionsTo are the open connections of a process that others have opened to its ports: "10.0.0.9:50812 to 10.0.0.7:80".
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
