// Package freeport finds free TCP ports on loopback for programs that must be given a fixed one.
package freeport

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The range is below Linux's ephemeral ports, so no other program gets one of these by chance
// between New and the caller's listen. It is above the usual ports of pgmesh's programs.
const (
	first = 20000
	last  = 32767
	tries = 1000
)

// reserved holds the locks that keep ports from other processes until this one ends.
var reserved struct {
	sync.Mutex
	locks []io.Closer
}

// New returns a free port on 127.0.0.1. No caller of New, in this or another process, gets the same
// port while this process lives.
func New() (int, error) {
	reserved.Lock()
	defer reserved.Unlock()
	for range tries {
		port := first + rand.IntN(last-first+1)
		// An abstract Unix socket serves as the lock: it has no file, and the kernel drops it when
		// the process ends.
		lock, err := net.Listen("unix", fmt.Sprintf("@pgmesh-port-%d", port))
		if err != nil {
			continue
		}
		if free(port) {
			reserved.locks = append(reserved.locks, lock)
			return port, nil
		}
		lock.Close()
	}
	return 0, errors.New("no free TCP port was found on 127.0.0.1")
}

func free(port int) bool {
	listener, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// Address returns 127.0.0.1 with a port from [New].
func Address() (string, error) {
	port, err := New()
	return address(port), err
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
