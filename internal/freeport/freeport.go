// Package freeport finds TCP ports on loopback for programs that have to be told theirs.
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

// Ports are from below those that Linux gives to whoever connects, or listens at port 0: one of these that is free stays so until its program listens,
// however long that takes. They are above the usual ones of pgmesh's programs.
const (
	first = 20000
	last  = 32767
	tries = 1000
)

// kept has what keeps ports from other processes, until this one ends.
var kept struct {
	sync.Mutex
	marks []io.Closer
}

// New is a port on 127.0.0.1 that is free, and that nobody else who asks here is given while this process lives.
func New() (int, error) {
	kept.Lock()
	defer kept.Unlock()
	for range tries {
		port := first + rand.IntN(last-first+1)
		// A name of the kernel's, which has no file and goes with the process.
		mark, err := net.Listen("unix", fmt.Sprintf("@pgmesh-port-%d", port))
		if err != nil {
			continue
		}
		if free(port) {
			kept.marks = append(kept.marks, mark)
			return port, nil
		}
		mark.Close()
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

// Address is one on 127.0.0.1 with a port of [New].
func Address() (string, error) {
	port, err := New()
	return address(port), err
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
