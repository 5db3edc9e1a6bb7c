// Package sockets lists a machine's TCP sockets and their owners, as ss does.
package sockets

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// Socket is a listener or one end of a connection.
type Socket struct {
	Local, Remote netip.AddrPort
	Listening     bool
	UID           uint32
	Inode         Inode
}

// Inode identifies a socket. It is 0 for one that no process has open any more.
type Inode uint32

// Of returns the sockets that a process has open: none if the process is gone or may not be
// inspected.
func Of(pid int) map[Inode]bool {
	inodes := map[Inode]bool{}
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		target, _ := os.Readlink(folder + "/" + entry.Name())
		if inode, is := strings.CutPrefix(target, "socket:["); is {
			number, _ := strconv.ParseUint(strings.TrimSuffix(inode, "]"), 10, 32)
			inodes[Inode(number)] = true
		}
	}
	return inodes
}
