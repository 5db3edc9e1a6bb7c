package gatewaynames

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// zone is a server of DNS with one address for each name; it says that it has failed for others.
type zone struct {
	net.PacketConn

	mu  sync.Mutex
	has map[string][4]byte
}

func newZone(t *testing.T) *zone {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	z := &zone{PacketConn: socket, has: map[string][4]byte{}}
	done := make(chan struct{})
	t.Cleanup(func() {
		socket.Close()
		<-done
	})
	go func() {
		defer close(done)
		buffer := make([]byte, 512)
		for {
			n, from, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer, err := z.answer(buffer[:n]); err == nil {
				_, _ = socket.WriteTo(answer, from)
			}
		}
	}()
	return z
}

// set gives a name an address, or none.
func (z *zone) set(name string, address ...byte) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.has, name)
	if len(address) == 4 {
		z.has[name] = [4]byte(address)
	}
}

func (z *zone) answer(request []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(request); err != nil {
		return nil, err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	m.Response, m.Additionals = true, nil
	address, known := z.has[strings.TrimSuffix(m.Questions[0].Name.String(), ".")]
	switch {
	case !known:
		m.RCode = dnsmessage.RCodeServerFailure
	case m.Questions[0].Type == dnsmessage.TypeA:
		head := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 1}
		m.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AResource{A: address}}}
	}
	return m.Pack()
}

func (z *zone) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", z.LocalAddr().String())
	}}
}

func run(t *testing.T, z *zone, log *slog.Logger) *Keeper {
	t.Helper()
	k := with(z.resolver(), 20*time.Millisecond, log)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = k.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return k
}

func becomes(t *testing.T, k *Keeper, want mesh.GatewayAddresses) {
	t.Helper()
	poll.Eventually(t, func(context.Context) error {
		if got := k.Addresses(); fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("the addresses are %v, not %v", got, want)
		}
		return nil
	})
}

func TestNamesAreResolvedAgainAndKept(t *testing.T) {
	t.Parallel()
	var log journal.Journal
	z := newZone(t)
	k := run(t, z, slog.New(slog.NewTextHandler(&log, nil)))
	z.set("a.example.com", 192, 0, 2, 1)
	k.Want([]string{"a.example.com", "b.example.com"})
	becomes(t, k, mesh.GatewayAddresses{"a.example.com": {"192.0.2.1"}})
	<-k.News()
	poll.Eventually(t, func(context.Context) error {
		if !strings.Contains(log.String(), "address=b.example.com count=0") {
			return fmt.Errorf("nothing is said of the other name: %s", log.String())
		}
		return nil
	})

	z.set("a.example.com", 192, 0, 2, 2)
	becomes(t, k, mesh.GatewayAddresses{"a.example.com": {"192.0.2.2"}})
	z.set("a.example.com")
	poll.Eventually(t, func(context.Context) error {
		if !strings.Contains(log.String(), "address=a.example.com count=1") {
			return fmt.Errorf("nothing is said of the failure: %s", log.String())
		}
		return nil
	})
	require.Equal(t, mesh.GatewayAddresses{"a.example.com": {"192.0.2.2"}}, k.Addresses(), "the last good answer stays")
	z.set("b.example.com", 192, 0, 2, 3)
	becomes(t, k, mesh.GatewayAddresses{"a.example.com": {"192.0.2.2"}, "b.example.com": {"192.0.2.3"}})
	k.Want([]string{"b.example.com"})
	becomes(t, k, mesh.GatewayAddresses{"b.example.com": {"192.0.2.3"}})
	require.Equal(t, 1, strings.Count(log.String(), "address=a.example.com"), "a failure is told once")
}

func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	k := with(newZone(t).resolver(), time.Hour, slog.New(slog.DiscardHandler))
	names := make([]string, 2*mostNames)
	for i := range names {
		names[i] = fmt.Sprintf("gateway-%04d.example.com", i)
	}
	k.Want(names)
	require.Len(t, k.wanted, mostNames)
}
