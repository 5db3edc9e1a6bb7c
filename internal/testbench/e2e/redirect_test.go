package e2e

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	machines "github.com/pgmesh/pgmesh/internal/testbench/netns"
)

// testMesh is two machines in network namespaces, whose agents redirect their traffic, and a
// discovery in a third. The machine cart calls; reviews answers.
type testMesh struct {
	t                       *testing.T
	authority               *certtest.Authority
	roots                   string
	control, cart, reviews  *machines.Namespace
	discovery               *machineProgram
	cartAgent, reviewsAgent *machineProgram

	as  []string // how agents are run
	saw sync.Map // the addresses that connections to reviews came from
}

// peers is a listener that records where connections come from.
type peers struct {
	net.Listener

	saw *sync.Map
}

func (p *peers) Accept() (net.Conn, error) {
	conn, err := p.Listener.Accept()
	if err == nil {
		// Ignore loopback: there the agent checks once whether this is an SSH server.
		if host, _, _ := net.SplitHostPort(conn.RemoteAddr().String()); host != "127.0.0.1" && host != "::1" {
			p.saw.Store(host, true)
		}
	}
	return conn, err
}

// machineProgram is a program that runs on one of the machines.
type machineProgram struct {
	t    testing.TB
	at   *machines.Namespace
	args []string
	run  *process.Process

	mu  sync.Mutex
	log bytes.Buffer
}

func (p *machineProgram) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *machineProgram) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *machineProgram) start() {
	p.t.Helper()
	p.mu.Lock()
	p.log.Reset()
	p.mu.Unlock()
	cmd := p.at.Command(context.Background(), p.args...)
	cmd.Stdout, cmd.Stderr = p, p
	var err error
	p.run, err = process.Start(cmd)
	require.NoError(p.t, err)
}

// end ends the program, and fails the test unless it ends without an error.
func (p *machineProgram) end() {
	p.t.Helper()
	p.run.Signal(syscall.SIGTERM)
	require.NoError(p.t, p.run.Err(), "%s", p.said())
}

func newTestMesh(t *testing.T, as []string, flags ...string) *testMesh {
	t.Helper()
	for _, tool := range []string{"nft", "iptables", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("this machine has no %s", tool)
		}
	}
	wire := machines.NewSwitch(t)
	tm := &testMesh{t: t, as: as, authority: certtest.NewAuthority(t), control: wire.Machine(t), cart: wire.Machine(t), reviews: wire.Machine(t)}
	tm.roots = filepath.Join(tm.folder(), "roots.pem")
	certtest.WriteFile(t, tm.roots, tm.authority.PEM)

	cert, key := tm.identity("pgmesh/discovery/one", tm.control)
	tm.discovery = tm.program(tm.control, filepath.Join(bin, "discovery"), "run", "--config-dir", tm.config(),
		"--listen", net.JoinHostPort(tm.control.IPv4.String(), "15012"), "--tls-cert", cert, "--tls-key", key, "--client-ca", tm.roots)
	tm.discovery.start()
	serveBackend(t, "reviews", &peers{Listener: tm.reviews.Listen("tcp", ":8080"), saw: &tm.saw})
	serveGreeter(t, "ledger", tm.reviews.Listen("tcp", ":9000"))
	serveGreeter(t, "ssh of reviews", tm.reviews.Listen("tcp", ":22"))
	serveGreeter(t, "SSH-2.0-elsewhere", tm.reviews.Listen("tcp", ":2222"))
	serveGreeter(t, "ssh of control", tm.control.Listen("tcp", ":22"))
	serveGreeter(t, "unknown to the mesh", tm.control.Listen("tcp", ":7000"))
	tm.reviewsAgent = tm.agent(tm.reviews, "reviews", flags...)
	resolvers := filepath.Join(tm.folder(), "resolv.conf")
	require.NoError(t, os.WriteFile(resolvers, []byte("nameserver "+tm.control.IPv4.String()+"\n"), 0o644))
	tm.cartAgent = tm.agent(tm.cart, "cart", append([]string{"--resolv-conf", resolvers, "--redirect-dns"}, flags...)...)
	return tm
}

// folder is a folder that agents may enter under any account.
func (tm *testMesh) folder() string {
	tm.t.Helper()
	path, err := os.MkdirTemp(bin, "mesh-")
	require.NoError(tm.t, err)
	require.NoError(tm.t, os.Chmod(path, 0o755))
	tm.t.Cleanup(func() { os.RemoveAll(path) })
	return path
}

// identity makes files with a certificate.
func (tm *testMesh) identity(of string, at *machines.Namespace) (cert, key string) {
	tm.t.Helper()
	folder := tm.folder()
	return tm.authority.Issue(func(c *x509.Certificate) {
		c.IPAddresses = []net.IP{at.IPv4.AsSlice()}
	}, "spiffe://cluster.local/"+of).Write(tm.t, folder)
}

func (tm *testMesh) program(at *machines.Namespace, command ...string) *machineProgram {
	p := &machineProgram{t: tm.t, at: at, args: command}
	tm.t.Cleanup(func() {
		if p.run != nil {
			p.run.Stop(longestWait)
		}
		if tm.t.Failed() {
			tm.t.Logf("%s:\n%s", strings.Join(command, " "), p.said())
		}
	})
	return p
}

// The accounts that agents run under: root, with a group of its own that marks Envoy's connections,
// and the account of the packages, which may do no more than it must.
var (
	ownGroup = []string{"setpriv", "--regid", agentGroup, "--clear-groups", "--pdeathsig", "KILL"}
	ownUser  = []string{
		"setpriv", "--reuid", agentGroup, "--regid", agentGroup, "--clear-groups", "--pdeathsig", "KILL", "--no-new-privs",
		"--bounding-set", "-all,+net_admin,+net_bind_service",
		"--inh-caps", "-all,+net_admin,+net_bind_service", "--ambient-caps", "-all,+net_admin,+net_bind_service",
	}
)

func (tm *testMesh) agent(at *machines.Namespace, account string, flags ...string) *machineProgram {
	tm.t.Helper()
	cert, key := tm.identity("ns/shop/sa/"+account, at)
	state := tm.folder()
	number, err := strconv.Atoi(agentGroup)
	require.NoError(tm.t, err)
	for _, path := range []string{cert, key, tm.roots, state} {
		require.NoError(tm.t, os.Chown(path, number, number))
	}
	p := tm.program(at, append(append(slices.Clone(tm.as), filepath.Join(bin, "mesh-agent"), "run", "--config", "",
		"--envoy", envoytest.Binary(tm.t), "--discovery", net.JoinHostPort(tm.control.IPv4.String(), "15012"), "--id", account+".shop",
		"--node-ip", at.IPv4.String(), "--tls-cert", cert, "--tls-key", key, "--tls-roots", tm.roots, "--state-dir", state,
		"--concurrency", "1", "--drain-time", "0s", "--dns", "serve", "--redirect", "--redirect-timeout", "3s", "--labels", "app="+account,
	), flags...)...)
	p.start()
	return p
}

// config is a folder with the mesh: services with allocated addresses, and mutual TLS for all.
func (tm *testMesh) config() string {
	tm.t.Helper()
	folder := tm.folder()
	endpoint := func(ip netip.Addr) string {
		return fmt.Sprintf("{address: '%s', labels: {app: reviews, security.istio.io/tlsMode: istio}, serviceAccount: reviews}", ip)
	}
	service := func(host, protocol string, port int, endpoint string) string {
		return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %s, namespace: shop}
spec: {hosts: [%s], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: %d, name: p, protocol: %s}], endpoints: [%s]}
`, nameOf(host), host, port, protocol, endpoint)
	}
	text := strings.Join([]string{
		service("reviews.mesh", "HTTP", 8080, endpoint(tm.reviews.IPv4)),
		service("six.mesh", "HTTP", 8080, endpoint(tm.reviews.IPv6)),
		service("ledger.mesh", "TCP", 9000, endpoint(tm.reviews.IPv4)),
		`
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: shop}
spec: {mtls: {mode: STRICT}}
`,
	}, "---")
	require.NoError(tm.t, os.WriteFile(filepath.Join(folder, "mesh.yaml"), []byte(text), 0o600))
	return folder
}

// addresses are those that the mesh allocated for a service: cart asks its nameserver, and its
// agent answers.
func (tm *testMesh) addresses(host string) (all []netip.Addr) {
	tm.t.Helper()
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return tm.cart.Dial(ctx, network, at(tm.control.IPv4, 53)) // nothing listens there
	}}
	eventually(tm.t, func(ctx context.Context) (err error) {
		all, err = resolver.LookupNetIP(ctx, "ip", host+".")
		if err == nil && len(all) != 2 {
			err = fmt.Errorf("%s has the addresses %v", host, all)
		}
		return err
	})
	return all
}

// clientOn is an ordinary program on a machine.
func clientOn(n *machines.Namespace) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: n.Dial, DisableKeepAlives: true}}
}

func (tm *testMesh) callers() (all []string) {
	tm.saw.Range(func(ip, _ any) bool {
		all = append(all, ip.(string))
		return true
	})
	return all
}

// callsByMutualTLS waits until reviews answers cart, and knows who called.
func (tm *testMesh) callsByMutualTLS(host, address string) *answer {
	tm.t.Helper()
	var got *answer
	eventually(tm.t, func(ctx context.Context) error {
		a, err := send(ctx, clientOn(tm.cart), address, request{host: host})
		if err != nil {
			return err
		}
		got = a
		if caller := a.seen.Header.Get("X-Forwarded-Client-Cert"); !strings.Contains(caller, "URI=spiffe://cluster.local/ns/shop/sa/cart") {
			return fmt.Errorf("the caller is %q: %s", caller, a.body)
		}
		return a.from("reviews")
	})
	return got
}

// hears returns an error unless the right application answers there.
func hears(ctx context.Context, from *machines.Namespace, address, want string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	name, err := converseBy(ctx, from.Dial, address)
	if err == nil && name != want {
		err = fmt.Errorf("%q answers, not %q", name, want)
	}
	return err
}

func at(ip netip.Addr, port uint16) string { return netip.AddrPortFrom(ip, port).String() }

func TestAgentsRedirectTheirMachines(t *testing.T) {
	t.Parallel()
	envoys := func(*machines.Namespace) []string { return []string{"127.0.0.6", "::6"} }
	clients := func(cart *machines.Namespace) []string { return []string{cart.IPv4.String(), cart.IPv6.String()} }
	for name, c := range map[string]struct {
		as    []string
		flags []string
		sees  func(cart *machines.Namespace) []string // where the application sees connections come from
	}{
		"nft":                {ownUser, []string{"--redirect-inbound-ports", "all"}, envoys},
		"iptables":           {ownGroup, []string{"--redirect-by", "iptables-legacy"}, envoys},
		"as it is, nft":      {ownUser, []string{"--interception-mode", "TPROXY"}, clients},
		"as it is, iptables": {ownGroup, []string{"--interception-mode", "TPROXY", "--redirect-by", "iptables-nft"}, clients},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tm := newTestMesh(t, c.as, append([]string{"--tie-envoy"}, c.flags...)...)
			tm.cartAgent.redirects()
			tm.reviewsAgent.redirects()
			services := tm.addresses("ledger.mesh")
			for _, service := range services {
				eventually(t, func(ctx context.Context) error { return hears(ctx, tm.cart, at(service, 9000), "ledger") })
				tm.callsByMutualTLS("reviews.mesh", at(service, 8080))
				tm.callsByMutualTLS("six.mesh", at(service, 8080))
			}

			require.ElementsMatch(t, c.sees(tm.cart), tm.callers())

			// A client without a certificate reaches nothing that is guarded.
			for _, ip := range []netip.Addr{tm.reviews.IPv4, tm.reviews.IPv6} {
				_, err := send(t.Context(), clientOn(tm.control), at(ip, 8080), request{host: "reviews.mesh"})
				require.Error(t, err)
				require.NoError(t, hears(t.Context(), tm.control, at(ip, 22), "ssh of reviews"))
				require.NoError(t, hears(t.Context(), tm.control, at(ip, 2222), "SSH-2.0-elsewhere"))
			}
			require.NoError(t, hears(t.Context(), tm.cart, at(tm.control.IPv4, 22), "ssh of control"))
			require.NoError(t, hears(t.Context(), tm.cart, at(tm.control.IPv4, 7000), "unknown to the mesh"))

			// A machine calls its own service through the mesh, as any other would, and itself
			// directly.
			eventually(t, func(ctx context.Context) error { return hears(ctx, tm.reviews, at(services[0], 9000), "ledger") })
			require.NoError(t, hears(t.Context(), tm.reviews, at(tm.reviews.IPv4, 9000), "ledger"))

			tm.endsWithItsAgents()
		})
	}
}

// redirects waits until an agent says that it redirects.
func (p *machineProgram) redirects() {
	p.t.Helper()
	eventually(p.t, func(context.Context) error {
		select {
		case <-p.run.Done():
			p.t.Fatalf("the agent has ended: %s", p.said())
		default:
		}
		if !strings.Contains(p.said(), "traffic is redirected") {
			return errors.New("nothing is redirected yet")
		}
		return nil
	})
}

// endsWithItsAgents ends one agent in an orderly way, which leaves nothing, and kills the other,
// whose rules expire.
func (tm *testMesh) endsWithItsAgents() {
	tm.t.Helper()
	tm.reviewsAgent.end()
	for _, list := range [][]string{{"nft", "list", "ruleset"}, {"iptables-legacy-save"}, {"ip6tables-legacy-save"}} {
		require.NotContains(tm.t, strings.ToLower(tm.reviews.Run(list...)), "pgmesh")
	}
	require.NotContains(tm.t, tm.reviews.Run("ip", "rule"), "lookup 133")
	require.NoError(tm.t, hears(tm.t.Context(), tm.control, at(tm.reviews.IPv4, 9000), "ledger"))

	tm.cartAgent.run.Kill()
	require.Error(tm.t, hears(tm.t.Context(), tm.cart, at(tm.control.IPv4, 7000), "unknown to the mesh"), "Envoy is gone")
	eventually(tm.t, func(ctx context.Context) error {
		return hears(ctx, tm.cart, at(tm.control.IPv4, 7000), "unknown to the mesh")
	})
	tm.cartAgent.start() // what the last one left is repaired
	tm.cartAgent.redirects()
	require.NoError(tm.t, hears(tm.t.Context(), tm.cart, at(tm.control.IPv4, 7000), "unknown to the mesh"))
	tm.cartAgent.end()
	require.NotContains(tm.t, strings.ToLower(tm.cart.Run("nft", "list", "ruleset")), "pgmesh")
}

// Envoy goes on without its agent, and so does redirected traffic as long as the rules are valid.
// Another agent starts in time.
func TestAgentsAreReplacedUnderRedirectedTraffic(t *testing.T) {
	t.Parallel()
	tm := newTestMesh(t, ownUser, "--redirect-timeout", "30s")
	tm.cartAgent.redirects()
	tm.reviewsAgent.redirects()
	ledger := at(tm.addresses("ledger.mesh")[0], 9000)
	eventually(t, func(ctx context.Context) error { return hears(ctx, tm.cart, ledger, "ledger") })

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	failed := make(chan error, 1)
	calls := 0
	go func() {
		for ; ctx.Err() == nil; calls++ {
			// The address belongs to nobody: a connection that is not redirected fails.
			if err := hears(t.Context(), tm.cart, ledger, "ledger"); err != nil {
				failed <- fmt.Errorf("call %d: %w", calls, err)
				return
			}
		}
		close(failed)
	}()
	for range 2 {
		tm.cartAgent.run.Kill()
		tm.cartAgent.start()
		tm.cartAgent.redirects()
	}
	stop()
	require.NoError(t, <-failed)
	require.Positive(t, calls)
	require.Contains(t, tm.cartAgent.said(), "Envoy goes on as an earlier agent has started it")
}
