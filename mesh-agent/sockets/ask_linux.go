package sockets

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// What the kernel calls the states of a socket.
const (
	established = 1
	listening   = 10
)

// The kernel's struct inet_diag_req_v2 and struct inet_diag_msg, of which x/sys has none.
const (
	byFamily    = 20
	requestSize = 56
	answerSize  = 72
)

// TCP are the sockets of this thread's network that listen or are connected. The kernel is asked for these alone: its table in /proc has also those
// that wait after their end, of which a busy machine has tens of thousands, and takes a second to write them. That is read where the kernel cannot
// be asked, having been built without inet_diag.
func TCP() ([]Socket, error) {
	asked, err := ask()
	if err == nil {
		return asked, nil
	}
	written, err2 := readTables()
	if err2 != nil {
		return nil, fmt.Errorf("ask the kernel for its TCP sockets: %w; %w", err, err2)
	}
	return written, nil
}

func ask() (all []Socket, err error) {
	conn, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		request := make([]byte, requestSize)
		request[0], request[1] = family, unix.IPPROTO_TCP
		binary.NativeEndian.PutUint32(request[4:], 1<<established|1<<listening)
		answers, err := conn.Execute(netlink.Message{
			Header: netlink.Header{Type: byFamily, Flags: netlink.Request | netlink.Dump},
			Data:   request,
		})
		if err != nil {
			return nil, err
		}
		for _, answer := range answers {
			if len(answer.Data) >= answerSize {
				all = append(all, read(answer.Data))
			}
		}
	}
	return all, nil
}

func read(answer []byte) Socket {
	address := func(from int) netip.Addr {
		if answer[0] == unix.AF_INET {
			return netip.AddrFrom4([4]byte(answer[from:]))
		}
		return netip.AddrFrom16([16]byte(answer[from:])).Unmap()
	}
	return Socket{
		Local:     netip.AddrPortFrom(address(8), binary.BigEndian.Uint16(answer[4:])),
		Remote:    netip.AddrPortFrom(address(24), binary.BigEndian.Uint16(answer[6:])),
		Listening: answer[1] == listening,
		UID:       binary.NativeEndian.Uint32(answer[64:]),
		Inode:     Inode(binary.NativeEndian.Uint32(answer[68:])),
	}
}
