//go:build !linux

// Package ownmark marks the agent's own connections, so that redirection can tell them from those of the machine's programs, which only Linux
// has.
package ownmark

import "syscall"

// Mark is the firewall mark of the agent's own packets on Linux.
const Mark = 1339

// Control does nothing.
func Control(_, _ string, _ syscall.RawConn) error { return nil }
