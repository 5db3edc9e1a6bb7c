package sockets

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The kernel's numbers of TCP states.
const (
	established = 1
	listening   = 10
)

// The message type and the sizes of struct inet_diag_req_v2 and struct inet_diag_msg, which x/sys
// does not define.
const (
	byFamily    = 20
	requestSize = 56
	answerSize  = 72
)

// TCP lists the listening and connected sockets of this thread's network namespace. It asks the
// kernel by netlink for these states alone: the table in /proc includes sockets in TIME_WAIT, tens
// of thousands on a busy machine, and takes a second to write. The table is the fallback for
// kernels built without inet_diag.
func TCP() ([]Socket, error) {
	found, err := ask()
	if err == nil {
		return found, nil
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
