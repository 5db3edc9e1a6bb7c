package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/netns"
)

// wired is a machine with its own network, one cable away from this one.
type wired struct {
	*netns.Namespace

	t testing.TB
	// near is this machine's end of the cable, far the other machine's.
	near, far string
	subnet    string
}

// agentGroup is the group whose connections are not redirected: Envoy's own.
const agentGroup = "1337"

// newWired makes a machine that goes when the test ends. It skips the test if this machine does not
// allow that.
func newWired(t testing.TB) *wired {
	t.Helper()
	for _, tool := range []string{"iptables", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("this machine has no %s", tool)
		}
	}
	id := os.Getpid()
	n := &wired{Namespace: netns.New(t), t: t, subnet: fmt.Sprintf("10.209.%d.", id%256)}
	n.near, n.far = n.address(1), n.address(2)
	cable := fmt.Sprintf("pgmesh%d", id)
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", cable).Run() }) // the kernel would take its time
	n.connect(cable)
	return n
}

func (n *wired) connect(cable string) {
	n.t.Helper()
	n.run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", n.Name)
	n.run("ip", "addr", "add", n.near+"/24", "dev", cable)
	for _, host := range []int{reviewsAt, ledgerAt, ownAt, greeterAt} {
		n.run("ip", "addr", "add", n.address(host)+"/32", "dev", cable)
	}
	n.run("ip", "link", "set", cable, "up")
	n.Run("ip", "addr", "add", n.far+"/24", "dev", "eth0")
	n.Run("ip", "link", "set", "eth0", "up")
}

// The hosts of the services' addresses. They are on this machine, too, where nothing listens on the
// services' ports: what Envoy does not route is refused at once.
const (
	reviewsAt = 10 + iota
	ledgerAt
	ownAt
	greeterAt
)

func (n *wired) address(host int) string { return n.subnet + strconv.Itoa(host) }

func (n *wired) run(command ...string) {
	n.t.Helper()
	out, err := exec.CommandContext(n.t.Context(), command[0], command[1:]...).CombinedOutput()
	require.NoError(n.t, err, "%s: %s", strings.Join(command, " "), out)
}

// redirect sends traffic to Envoy as istio-iptables does: inbound to port 15006, outbound to port
// 15001.
func (n *wired) redirect() {
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
		out, err := n.Command(n.t.Context(), append([]string{"iptables", "-t", "nat"}, strings.Fields(rule)...)...).CombinedOutput()
		if err != nil {
			n.t.Skipf("this machine cannot redirect traffic: iptables %s: %s", rule, out)
		}
	}
}

// client sends requests from inside the namespace, each on a new connection.
func (n *wired) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: n.Dial, DisableKeepAlives: true}}
}
