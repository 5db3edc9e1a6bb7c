package namesake

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// trusts reports whether who listens at the other end is root or this process's account, as of when it
// began to listen.
func trusts(conn *net.UnixConn) (yes bool, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false, err
	}
	var who *unix.Ucred
	var asked error
	err = raw.Control(func(fd uintptr) { who, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, asked); err != nil {
		return false, err
	}
	return who.Uid == 0 || int(who.Uid) == os.Geteuid(), nil
}
