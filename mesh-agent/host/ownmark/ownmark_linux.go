// Package ownmark sets a firewall mark on the agent's own connections. Redirection recognizes them
// by it, whatever account the agent runs under.
package ownmark

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Mark is the firewall mark of the agent's own packets. Envoy's is 1337, which it sets where it
// connects with its clients' addresses (TPROXY).
const Mark = 1339

// Control sets the mark; use it in a net.Dialer or net.ListenConfig. Failure is ignored: setting a
// mark takes CAP_NET_ADMIN, and an agent without it cannot redirect either.
func Control(_, _ string, conn syscall.RawConn) error {
	return conn.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, Mark) })
}
