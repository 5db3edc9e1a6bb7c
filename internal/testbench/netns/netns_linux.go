package netns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Namespace is the network of one test machine.
type Namespace struct {
	// Name is its name for `ip netns`.
	Name string
	// IPv4 and IPv6 are its addresses on eth0, if it is on a switch.
	IPv4, IPv6 netip.Addr
	// Cable leads to that switch.
	Cable *Cable

	t      testing.TB
	cables int
}

var made atomic.Int64

// New creates a namespace with only a loopback interface. It removes it when the test ends, and
// skips the test if the host does not allow namespaces.
func New(t testing.TB) *Namespace {
	t.Helper()
	return named(t, func(name string) []string { return []string{"add", name} })
}

// named has `ip netns` name a namespace, by the arguments that a name comes to.
func named(t testing.TB, arguments func(name string) []string) *Namespace {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a network namespace")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("this machine has no ip: tools/machine-packages installs it")
	}
	sweep()
	n := &Namespace{t: t, Name: fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), made.Add(1))}
	if out, err := exec.Command("ip", append([]string{"netns"}, arguments(n.Name)...)...).CombinedOutput(); err != nil {
		t.Skipf("this machine allows no network namespaces: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "netns", "del", n.Name).CombinedOutput(); err != nil {
			t.Errorf("remove the network namespace %s: %s", n.Name, out)
		}
	})
	n.Run("ip", "link", "set", "lo", "up")
	return n
}

// prefix begins a namespace's name; the pid of its creator and a number follow.
const prefix = "pgmesh-test-"

// sweep removes the namespaces that killed tests left behind.
func sweep() {
	there, _ := filepath.Glob("/run/netns/" + prefix + "*")
	for _, path := range there {
		name := filepath.Base(path)
		pid, err := strconv.Atoi(strings.Split(strings.TrimPrefix(name, prefix), "-")[0])
		if err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			_ = exec.Command("ip", "netns", "del", name).Run()
		}
	}
}

// Command returns a command that runs in the namespace.
func (n *Namespace) Command(ctx context.Context, command ...string) *exec.Cmd {
	via := append(n.Via(), command...)
	return exec.CommandContext(ctx, via[0], via[1:]...)
}

// Via returns the words before a command that run it in the namespace. They exec the command, so
// its pid is the started process's.
func (n *Namespace) Via() []string { return []string{"ip", "netns", "exec", n.Name} }

// Run runs a command in the namespace and returns its output. It fails the test if the command
// fails.
func (n *Namespace) Run(command ...string) string {
	n.t.Helper()
	out, err := n.Command(context.WithoutCancel(n.t.Context()), command...).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return string(out)
}

// Do calls a function on a thread in the namespace. Sockets that the function opens stay in the
// namespace; goroutines that it starts do not.
func (n *Namespace) Do(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		file, err := os.Open(filepath.Join("/run/netns", n.Name))
		if err != nil {
			done <- err
			return
		}
		defer file.Close()
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter the network namespace %s: %w", n.Name, err)
			return
		}
		done <- do()
	}()
	return <-done
}

// Dial connects from inside the namespace to an IP address and port.
func (n *Namespace) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = n.Do(func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen listens inside the namespace until the test ends.
func (n *Namespace) Listen(network, address string) net.Listener {
	n.t.Helper()
	var l net.Listener
	err := n.Do(func() (err error) {
		l, err = net.Listen(network, address)
		return err
	})
	if err != nil {
		n.t.Fatalf("listen at %s in %s: %v", address, n.Name, err)
	}
	n.t.Cleanup(func() { l.Close() })
	return l
}

// ListenPacket is Listen for datagrams.
func (n *Namespace) ListenPacket(network, address string) net.PacketConn {
	n.t.Helper()
	var c net.PacketConn
	err := n.Do(func() (err error) {
		c, err = net.ListenPacket(network, address)
		return err
	})
	if err != nil {
		n.t.Fatalf("listen at %s in %s: %v", address, n.Name, err)
	}
	n.t.Cleanup(func() { c.Close() })
	return c
}
