// Package sockets tells which TCP sockets a machine has and whose they are, as ss does.
package sockets

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// Socket listens, or is one end of a connection.
type Socket struct {
	Local, Remote netip.AddrPort
	Listening     bool
	UID           uint32
	Inode         Inode
}

// Inode tells sockets apart. One that no process has open any more has none.
type Inode uint32

// Of are the sockets that a process has open, none of one that is gone or that this one may not look into.
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
