package sockets

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// readTables reads the tables in /proc.
func readTables() (all []Socket, err error) {
	for _, file := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // tcp6 is missing without IPv6
			return nil, err
		}
		all = append(all, readTable(string(text))...)
	}
	return all, nil
}

// readTable parses the kernel's table of TCP sockets. Its columns are number, local address, remote
// address, state, …; the eighth is the user, the tenth the inode.
func readTable(text string) (all []Socket) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 10 {
			continue
		}
		state, _ := strconv.ParseUint(words[3], 16, 8)
		uid, _ := strconv.ParseUint(words[7], 10, 32)
		inode, _ := strconv.ParseUint(words[9], 10, 32)
		local, ok := readAddress(words[1])
		remote, ok2 := readAddress(words[2])
		if ok && ok2 && (state == established || state == listening) {
			all = append(all, Socket{local, remote, state == listening, uint32(uid), Inode(inode)})
		}
	}
	return all
}

// readAddress parses an address such as 0100007F:1F90. The address is in words of the machine's
// byte order, and all supported machines are little-endian.
func readAddress(word string) (at netip.AddrPort, ok bool) {
	address, port, found := strings.Cut(word, ":")
	raw, err := hex.DecodeString(address)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if !found || err != nil || err2 != nil || len(raw)%4 != 0 {
		return at, false
	}
	for quad := range slices.Chunk(raw, 4) {
		slices.Reverse(quad)
	}
	ip, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(ip.Unmap(), uint16(number)), ok
}
