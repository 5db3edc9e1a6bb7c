package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// named is a mesh whose names the agent resolves, and a client that asks it.
type named struct {
	*mesh

	names *net.Resolver
}

var resolvers atomic.Int32

func newNamed(t *testing.T, flags ...string) *named {
	t.Helper()
	at := fmt.Sprintf("127.53.%d.%d:15053", os.Getpid()%250, resolvers.Add(1)) // a loopback address that nobody else uses
	m := newMesh(t, append([]string{"--dns", "serve", "--dns-listen", at, "--dns-proxy-listen", at[:len(at)-1] + "4", "--dns-upstream", "127.0.0.1:1"}, flags...)...)
	names := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, at)
	}}
	return &named{m, names}
}

// resolves waits until a name has these IPv4 addresses; none means an unknown name.
func (n *named) resolves(name string, want ...string) {
	n.t.Helper()
	eventually(n.t, func(ctx context.Context) error {
		ips, err := n.names.LookupIP(ctx, "ip4", name)
		var missing *net.DNSError
		if err != nil && !errors.As(err, &missing) {
			return err
		}
		var got []string
		for _, ip := range ips {
			got = append(got, ip.String())
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("%s is %v (%w), want %v", name, got, err, want)
		}
		return nil
	})
}

// An application that knows nothing of the mesh resolves a name, connects to the address, and is
// answered by the service.
func TestNamesLeadToServices(t *testing.T) {
	t.Parallel()
	n := newNamed(t)
	pair := backends(t, "one", "two")
	n.commit(n.service("cart.mesh", pair[0]), n.service("api.example.com", pair[1]))
	n.resolves("cart.mesh", "127.0.0.1")
	n.resolves("api.example.com", "127.0.0.1")

	client := newClient(t)
	client.Transport.(*http.Transport).DialContext = (&net.Dialer{Resolver: n.names}).DialContext
	fetches(t, client, net.JoinHostPort("cart.mesh", n.port), "one")
	fetches(t, client, net.JoinHostPort("api.example.com", n.port), "two")

	_, ports, err := n.names.LookupSRV(t.Context(), "http", "tcp", "cart.mesh")
	require.NoError(t, err)
	require.Len(t, ports, 1)
	require.Equal(t, n.port, fmt.Sprint(ports[0].Port))

	n.transaction(func(tx pgx.Tx) { n.remove(tx, "ServiceEntry", "cart") })
	n.resolves("cart.mesh")
	n.resolves("api.example.com", "127.0.0.1")
}

// With redirection each service has an address, even if nobody gave it one.
func TestNamesHaveAllocatedAddresses(t *testing.T) {
	t.Parallel()
	n := newNamed(t, "--interception-mode", "REDIRECT")
	n.commit(n.service("cart.mesh", backends(t, "one")...))
	var first string
	eventually(t, func(ctx context.Context) error {
		ips, err := n.names.LookupIP(ctx, "ip4", "cart.mesh")
		if err == nil {
			first = ips[0].String()
		}
		return err
	})
	require.Regexp(t, `^240\.240\.\d+\.\d+$`, first)
	back, err := n.names.LookupAddr(t.Context(), first)
	require.NoError(t, err)
	require.Equal(t, []string{"cart.mesh."}, back)
}

// Envoy resolves the names of endpoints itself. With the mesh's answers, it would call itself, and
// a request would go round for ever.
func TestAProxyIsNotLedToItself(t *testing.T) {
	t.Parallel()
	beyond := backends(t, "beyond")[0]
	at, asked := publicName(t, "localtest.example.")
	n := newNamed(t, "--dns-upstream", at)
	n.commit(fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: localtest}
spec:
  hosts: [localtest.example]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{name: http, number: %s, protocol: HTTP, targetPort: %s}]
`, n.port, beyond.port))
	n.resolves("localtest.example", "127.0.0.1")
	client := newClient(t)
	client.Transport.(*http.Transport).DialContext = (&net.Dialer{Resolver: n.names}).DialContext
	fetches(t, client, net.JoinHostPort("localtest.example", n.port), "beyond")
	require.Positive(t, asked.Load(), "it asked whom the machine asks")
}

// publicName is a resolver that knows one name, with the address of the test's backends.
func publicName(t *testing.T, name string) (at string, asked *atomic.Int32) {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	asked = new(atomic.Int32)
	server := &dns.Server{PacketConn: packets, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
		answer := new(dns.Msg).SetRcode(m, dns.RcodeNameError)
		if q := m.Question[0]; q.Name == name {
			asked.Add(1)
			answer = new(dns.Msg).SetReply(m)
			if q.Qtype == dns.TypeA {
				answer.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.IPv4(127, 0, 0, 1)}}
			}
		}
		_ = w.WriteMsg(answer)
	})}
	started, ended := make(chan struct{}), make(chan struct{})
	server.NotifyStartedFunc = func() { close(started) }
	go func() { _ = server.ActivateAndServe(); close(ended) }()
	<-started
	t.Cleanup(func() { _ = server.Shutdown(); <-ended })
	return packets.LocalAddr().String(), asked
}
