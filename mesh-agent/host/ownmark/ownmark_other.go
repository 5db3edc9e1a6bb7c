//go:build !linux

// Package ownmark sets a firewall mark on the agent's own connections, so that redirection
// recognizes them. Only Linux has such marks.
package ownmark

import "syscall"

// Mark is the firewall mark of the agent's own packets on Linux.
const Mark = 1339

// Control does nothing, as there is no firewall mark to set.
func Control(_, _ string, _ syscall.RawConn) error { return nil }
