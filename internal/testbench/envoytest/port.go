package envoytest

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Port reserves a TCP port for an Envoy listener until the test ends. It binds the port with
// SO_REUSEPORT, as Envoy's listeners do, and does not listen. Programs that do not set
// SO_REUSEPORT, such as a Go server, cannot use the port; they should use port 0.
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
