package envoytest

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Port gives the test a TCP port for a listener of Envoy, and keeps it from everyone else until the test ends: it is
// bound but not listened on, with SO_REUSEPORT, which Envoy sets on its listeners too. Programs that do not set it (a
// Go server) cannot listen there; they take port 0 themselves.
func Port(t testing.TB) uint32 {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatalf("reserve a port: %v", err)
	}
	unix.CloseOnExec(fd)
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		t.Fatalf("reserve a port: %v", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{}); err != nil {
		t.Fatalf("reserve a port: %v", err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatalf("reserve a port: %v", err)
	}
	return uint32(name.(*unix.SockaddrInet4).Port)
}
