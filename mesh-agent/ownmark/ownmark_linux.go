// Package ownmark marks the agent's own connections, so that redirection can tell them from those of the machine's programs, whoever's
// account the agent runs under.
package ownmark

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Mark is the firewall mark of the agent's own packets. 1337 beside it is Envoy's, where it connects under its clients' addresses (TPROXY).
const Mark = 1339

// Control is for a net.Dialer or net.ListenConfig whose connections are the agent's own. An agent that may not mark them (it takes CAP_NET_ADMIN)
// redirects nothing either, so that is no error.
func Control(_, _ string, conn syscall.RawConn) error {
	return conn.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, Mark) })
}
