package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// netns is a network namespace: a machine of its own as far as its network is concerned, one cable away from
// this one.
type netns struct {
	t    testing.TB
	name string
	// near is this machine's end of the cable, far the namespace's.
	near, far string
	subnet    string
}

// agentGroup is whose connections are not redirected: those of Envoy itself.
const agentGroup = "1337"

// newNetns makes a namespace that is gone when the test ends, or skips the test where the machine does not
// let it.
func newNetns(t testing.TB) *netns {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a network namespace")
	}
	for _, tool := range []string{"ip", "iptables", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("this machine has no %s", tool)
		}
	}
	id := os.Getpid()
	n := &netns{t: t, name: fmt.Sprintf("pgmesh-%d", id), subnet: fmt.Sprintf("10.209.%d.", id%256)}
	n.near, n.far = n.address(1), n.address(2)
	cable := fmt.Sprintf("pgmesh%d", id)
	if out, err := exec.CommandContext(t.Context(), "ip", "netns", "add", n.name).CombinedOutput(); err != nil {
		t.Skipf("this machine allows no network namespaces: %s", out)
	}
	t.Cleanup(func() {
		_ = exec.Command("ip", "link", "del", cable).Run() // the kernel would take its time
		if out, err := exec.Command("ip", "netns", "del", n.name).CombinedOutput(); err != nil {
			t.Errorf("remove the network namespace %s: %s", n.name, out)
		}
	})
	n.connect(cable)
	return n
}

func (n *netns) connect(cable string) {
	n.t.Helper()
	n.run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", n.name)
	n.run("ip", "addr", "add", n.near+"/24", "dev", cable)
	for _, host := range []int{reviewsAt, ledgerAt, ownAt, greeterAt} {
		n.run("ip", "addr", "add", n.address(host)+"/32", "dev", cable)
	}
	n.run("ip", "link", "set", cable, "up")
	n.inside("ip", "addr", "add", n.far+"/24", "dev", "eth0")
	n.inside("ip", "link", "set", "eth0", "up")
	n.inside("ip", "link", "set", "lo", "up")
}

// The hosts of the services' addresses. They are this machine's too, where nobody listens on the services'
// ports: what Envoy does not route is refused at once.
const (
	reviewsAt = 10 + iota
	ledgerAt
	ownAt
	greeterAt
)

func (n *netns) address(host int) string { return n.subnet + strconv.Itoa(host) }

func (n *netns) run(command ...string) {
	n.t.Helper()
	out, err := exec.CommandContext(n.t.Context(), command[0], command[1:]...).CombinedOutput()
	require.NoError(n.t, err, "%s: %s", strings.Join(command, " "), out)
}

func (n *netns) inside(command ...string) {
	n.t.Helper()
	n.run(append([]string{"ip", "netns", "exec", n.name}, command...)...)
}

// redirect sends traffic to Envoy as istio-iptables does: what comes in to port 15006, what goes out to port
// 15001.
func (n *netns) redirect() {
	n.t.Helper()
	for _, rule := range []string{
		"-A PREROUTING -p tcp -j REDIRECT --to-ports 15006",
		"-A OUTPUT -s 127.0.0.6/32 -o lo -j RETURN",
		"-A OUTPUT ! -d 127.0.0.1/32 -o lo -p tcp -m owner --gid-owner " + agentGroup + " -j REDIRECT --to-ports 15006",
		"-A OUTPUT -o lo -m owner ! --gid-owner " + agentGroup + " -j RETURN",
		"-A OUTPUT -m owner --gid-owner " + agentGroup + " -j RETURN",
		"-A OUTPUT -d 127.0.0.1/32 -j RETURN",
		"-A OUTPUT -p tcp -j REDIRECT --to-ports 15001",
	} {
		out, err := exec.CommandContext(n.t.Context(), "ip",
			append([]string{"netns", "exec", n.name, "iptables", "-t", "nat"}, strings.Fields(rule)...)...).CombinedOutput()
		if err != nil {
			n.t.Skipf("this machine cannot redirect traffic: iptables %s: %s", rule, out)
		}
	}
}

// enter calls a function on a thread that is in the namespace. The thread ends with it; the sockets that it
// opened stay there.
func (n *netns) enter(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked
		file, err := os.Open(filepath.Join("/run/netns", n.name))
		if err != nil {
			done <- err
			return
		}
		defer file.Close()
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- do()
	}()
	return <-done
}

func (n *netns) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = n.enter(func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

func (n *netns) listen(address string) net.Listener {
	n.t.Helper()
	var l net.Listener
	require.NoError(n.t, n.enter(func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	}))
	return l
}

// client asks from inside the namespace, each time on a new connection.
func (n *netns) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: n.dial, DisableKeepAlives: true}}
}
