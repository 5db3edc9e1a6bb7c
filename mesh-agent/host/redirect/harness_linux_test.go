package redirect_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pgmesh/pgmesh/internal/testbench/netns"
	"github.com/pgmesh/pgmesh/mesh-agent/host/redirect"
)

// timeout bounds each wait; only a failure takes so long.
const timeout = 20 * time.Second

// application and envoy are the users whose connections are told apart.
const (
	application = 1001
	envoy       = 990
)

// site is a machine whose traffic is redirected, and another one beside it.
type site struct {
	t               *testing.T
	machine, beside *netns.Namespace
	kernel          redirect.Kernel
	plan            redirect.Plan
}

// each runs a test with each program that can change rules.
func each(t *testing.T, options redirect.Options, test func(t *testing.T, s *site)) {
	t.Helper()
	for _, by := range []string{redirect.ByNFT, redirect.ByIPTablesNFT, redirect.ByIPTablesOnly} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			test(t, newSite(t, by, options))
		})
	}
}

func newSite(t *testing.T, by string, options redirect.Options) *site {
	t.Helper()
	wire := netns.NewSwitch(t)
	s := &site{t: t, machine: wire.Machine(t), beside: wire.Machine(t)}
	surroundings := redirect.Environment{
		SSH: redirect.PortsOf(22), Agent: redirect.PortsOf(15000), Resolver4: true, Resolver6: true,
		Discovery:   []netip.AddrPort{netip.AddrPortFrom(s.beside.IPv4, 15012)},
		Nameservers: []netip.Addr{s.beside.IPv4, s.beside.IPv6},
	}
	var err error
	s.plan, err = options.Plan(surroundings, listening)
	require.NoError(t, err)
	if _, err := exec.LookPath(by); err != nil {
		t.Skipf("this machine has no %s: tools/machine-packages installs it", by)
	}
	s.inside(func(ctx context.Context) error {
		s.kernel, err = redirect.Open(ctx, by, s.plan)
		return err
	})
	for _, port := range []int{15001, 15006, 22, 8080, 8888} {
		s.serve(s.machine, "", port)
	}
	// A resolver has to answer from the address that was asked.
	s.serve(s.machine, "127.0.0.1", 15053)
	s.serve(s.machine, "::1", 15053)
	for _, port := range []int{22, 53, 80, 8080, 15012} {
		s.serve(s.beside, "", port)
	}
	return s
}

// inside runs a function in the machine's network namespace.
func (s *site) inside(do func(context.Context) error) {
	s.t.Helper()
	require.NoError(s.t, s.machine.Do(func() error { return do(context.WithoutCancel(s.t.Context())) }))
}

func (s *site) apply() {
	s.t.Helper()
	s.inside(func(ctx context.Context) error { return s.kernel.Apply(ctx, s.plan) })
}

// serve answers connections with the server's name and the client's intended destination, and then
// echoes.
func (s *site) serve(at *netns.Namespace, ip string, port int) {
	s.t.Helper()
	name := map[*netns.Namespace]string{s.machine: "machine", s.beside: "beside"}[at]
	l := at.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "%s:%d for %s\n", name, port, meantFor(conn))
			go func() {
				defer conn.Close()
				io.Copy(conn, conn)
			}()
		}
	}()
	packets := at.ListenPacket("udp", net.JoinHostPort(ip, strconv.Itoa(port)))
	go func() {
		buffer := make([]byte, 100)
		for {
			_, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			packets.WriteTo([]byte(fmt.Sprintf("%s:%d for datagrams\n", name, port)), from)
		}
	}()
}

// originalDestination returns the destination before redirection: SO_ORIGINAL_DST, as Envoy asks
// for it.
const originalDestination = 80

func meantFor(conn net.Conn) string {
	address := conn.LocalAddr().(*net.TCPAddr).AddrPort()
	at := netip.AddrPortFrom(address.Addr().Unmap(), address.Port())
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err.Error()
	}
	raw.Control(func(fd uintptr) {
		if at.Addr().Is4() {
			// Its first 16 bytes are a struct sockaddr_in.
			if found, err := unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, originalDestination); err == nil {
				a := found.Multiaddr
				at = netip.AddrPortFrom(netip.AddrFrom4([4]byte(a[4:8])), uint16(a[2])<<8|uint16(a[3]))
			}
			return
		}
		// It begins with a struct sockaddr_in6.
		if found, err := unix.GetsockoptIPv6MTUInfo(int(fd), unix.SOL_IPV6, originalDestination); err == nil {
			port := found.Addr.Port<<8 | found.Addr.Port>>8
			at = netip.AddrPortFrom(netip.AddrFrom16(found.Addr.Addr), port)
		}
	})
	return at.String()
}

// client describes how to connect.
type client struct {
	at    *netns.Namespace
	user  int
	group int
	from  string
}

func (s *site) as(user int) client { return client{at: s.machine, user: user} }

func (c client) dial(ctx context.Context, network, to string) (conn net.Conn, err error) {
	d := net.Dialer{}
	if c.from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(c.from)}
	}
	err = c.at.Do(func() error {
		// The user applies to this thread alone, which ends with the function. The kernel takes it
		// as the socket's owner.
		if _, err := unix.SetfsgidRetGid(c.group); err != nil {
			return err
		}
		if _, err := unix.SetfsuidRetUid(c.user); err != nil {
			return err
		}
		conn, err = d.DialContext(ctx, network, to)
		return err
	})
	return conn, err
}

// open connects, and returns who answered.
func (c client) open(t *testing.T, network, to string) (conn net.Conn, answer string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	conn, err = c.dial(ctx, network, to)
	if err != nil {
		return nil, "", err
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Second))
	if network == "udp" {
		if _, err := conn.Write([]byte("?")); err != nil {
			return conn, "", err
		}
	}
	buffer := make([]byte, 200)
	n, err := conn.Read(buffer)
	return conn, strings.TrimSpace(string(buffer[:n])), err
}

// ask is open without the connection.
func (c client) ask(t *testing.T, network, to string) (answer string, err error) {
	t.Helper()
	conn, answer, err := c.open(t, network, to)
	if conn != nil {
		conn.Close()
	}
	return answer, err
}

// reaches requires that a given server answers.
func (c client) reaches(t *testing.T, network, to, want string) {
	t.Helper()
	answer, err := c.ask(t, network, to)
	require.NoError(t, err, "%s %s as %d", network, to, c.user)
	require.Equal(t, want, answer, "%s %s as %d", network, to, c.user)
}

// comesToReach waits until a given server answers.
func (c client) comesToReach(t *testing.T, to, want string) {
	t.Helper()
	last := ""
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); <-tick.C {
		answer, err := c.ask(t, "tcp", to)
		if err == nil && answer == want {
			return
		}
		last = fmt.Sprint(answer, err)
	}
	t.Fatalf("%s is not answered by %s: %s", to, want, last)
}

// talks requires that an open connection still works both ways.
func talks(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetDeadline(time.Now().Add(2 * time.Second))
	_, err := conn.Write([]byte("still there?"))
	require.NoError(t, err)
	buffer := make([]byte, len("still there?"))
	_, err = io.ReadFull(conn, buffer)
	require.NoError(t, err)
}

func at(ip netip.Addr, port uint16) string { return netip.AddrPortFrom(ip, port).String() }

// varying matches the parts of a rule listing that change on their own.
var varying = regexp.MustCompile(`(?m)packets \d+ bytes \d+|expires [0-9a-z]+|\[\d+:\d+\]|^#.*$`)

// rules lists all rules of the machine, whoever made them.
func (s *site) rules() string {
	s.t.Helper()
	var b strings.Builder
	for _, command := range [][]string{{"nft", "list", "ruleset"}, {"iptables-legacy-save"}, {"ip6tables-legacy-save"}, {"ip", "rule"}, {"ip", "-6", "rule"}, {"ip", "addr", "show", "dev", "lo"}} {
		if _, err := exec.LookPath(command[0]); err == nil {
			b.WriteString(varying.ReplaceAllString(s.machine.Run(command...), ""))
		}
	}
	return b.String()
}
