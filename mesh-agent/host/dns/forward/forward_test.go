package forward_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/forward"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// resolver is an upstream whose behavior a test supplies.
type resolver struct {
	at    netip.AddrPort
	asked atomic.Int32
	do    atomic.Pointer[dns.HandlerFunc]
}

func newResolver(t *testing.T, do dns.HandlerFunc) *resolver {
	t.Helper()
	r := &resolver{}
	r.set(do)
	packets, l := sockets(t)
	r.at = packets.LocalAddr().(*net.UDPAddr).AddrPort()
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
		r.asked.Add(1)
		(*r.do.Load())(w, m)
	})
	var ended sync.WaitGroup
	t.Cleanup(ended.Wait)
	for _, s := range []*dns.Server{{PacketConn: packets, Handler: handler}, {Listener: l, Handler: handler}} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		ended.Go(func() { _ = s.ActivateAndServe() })
		<-started
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return r
}

// sockets listens on one port over UDP and TCP.
func sockets(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 100 {
		packets, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		if l, err := net.Listen("tcp", packets.LocalAddr().String()); err == nil {
			return packets, l
		}
		packets.Close()
	}
	t.Fatal("no port is free")
	return nil, nil
}

func (r *resolver) set(do dns.HandlerFunc) { r.do.Store(&do) }

// says answers every question with an address.
func says(ip string, ttl int) dns.HandlerFunc {
	return func(w dns.ResponseWriter, m *dns.Msg) {
		answer := new(dns.Msg).SetReply(m)
		rr, err := dns.NewRR(fmt.Sprintf("%s %d IN A %s", m.Question[0].Name, ttl, ip))
		if err != nil {
			panic(err)
		}
		answer.Answer = []dns.RR{rr}
		_ = w.WriteMsg(answer)
	}
}

func code(rcode int) dns.HandlerFunc {
	return func(w dns.ResponseWriter, m *dns.Msg) { _ = w.WriteMsg(new(dns.Msg).SetRcode(m, rcode)) }
}

func silent(dns.ResponseWriter, *dns.Msg) {}

// nobody returns an address that refuses connections.
func nobody(t *testing.T) netip.AddrPort {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer packets.Close()
	return packets.LocalAddr().(*net.UDPAddr).AddrPort()
}

func newForwarder(t *testing.T, upstreams ...netip.AddrPort) (*forward.Forwarder, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	f := forward.New(forward.Options{Log: slog.New(slog.DiscardHandler), Metrics: registry, Entries: 100, Bytes: 1 << 20})
	f.Use(upstreams)
	t.Cleanup(f.Wait)
	return f, registry
}

func about(name string) forward.Question { return forward.Question{Name: name, Type: dns.TypeA} }

// ask returns the address in the answer.
func ask(t *testing.T, f *forward.Forwarder, name string) (string, forward.Answer) {
	t.Helper()
	a, err := f.Ask(t.Context(), about(name))
	require.NoError(t, err)
	require.NotEmpty(t, a.Msg.Answer, a.Msg)
	return a.Msg.Answer[0].(*dns.A).A.String(), a
}

func TestAnswersAreCached(t *testing.T) {
	t.Parallel()
	r := newResolver(t, says("192.0.2.1", 300))
	f, registry := newForwarder(t, r.at)
	_, known := f.Known(about("a.example."))
	require.False(t, known)
	for _, want := range []forward.Source{forward.Upstream, forward.Cache, forward.Cache} {
		ip, a := ask(t, f, "a.example.")
		require.Equal(t, "192.0.2.1", ip)
		require.Equal(t, want, a.Source)
		require.Equal(t, r.at, a.Upstream)
	}
	require.EqualValues(t, 1, r.asked.Load())
	n, err := testutil.GatherAndCount(registry, "pgmesh_mesh_agent_dns_upstream_duration_seconds")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	f.Use(nil)
	_, err = f.Ask(t.Context(), about("b.example."))
	require.ErrorIs(t, err, forward.ErrNone)
	n, err = testutil.GatherAndCount(registry, "pgmesh_mesh_agent_dns_upstream_duration_seconds")
	require.NoError(t, err)
	require.Zero(t, n, "who is not asked any more is not counted")
}

func TestNextUpstreamAfterARefusal(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]dns.HandlerFunc{"fails": code(dns.RcodeServerFailure), "refuses": code(dns.RcodeRefused), "is silent": silent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad, good := newResolver(t, do), newResolver(t, says("192.0.2.2", 300))
			f, _ := newForwarder(t, bad.at, good.at)
			ip, _ := ask(t, f, "a.example.")
			require.Equal(t, "192.0.2.2", ip)
			require.EqualValues(t, 1, bad.asked.Load(), "the first is asked first")
		})
	}
}

func TestFailedUpstreamIsRetriedBesideAHealthyOne(t *testing.T) {
	t.Parallel()
	good := newResolver(t, says("192.0.2.2", 300))
	away := nobody(t)
	f, registry := newForwarder(t, away, good.at)
	for n := range 3 { // the first finds out that it is down
		ip, _ := ask(t, f, fmt.Sprintf("%d.example.", n))
		require.Equal(t, "192.0.2.2", ip)
	}
	failures := func() float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			if family.GetName() == "pgmesh_mesh_agent_dns_upstream_failures_total" {
				require.Equal(t, "network", family.GetMetric()[0].GetLabel()[0].GetValue())
				return family.GetMetric()[0].GetCounter().GetValue()
			}
		}
		return 0
	}
	require.InDelta(t, 1, failures(), 0, "it is left alone for a while")
	require.Eventually(t, func() bool {
		begun := time.Now()
		ask(t, f, fmt.Sprintf("later-%d.example.", begun.UnixNano()))
		require.Less(t, time.Since(begun), 500*time.Millisecond, "nobody waits for it")
		return failures() > 1
	}, 10*time.Second, 50*time.Millisecond, "and then it is tried again")
}

func TestTruncatedAnswerIsRetriedByTCP(t *testing.T) {
	t.Parallel()
	r := newResolver(t, func(w dns.ResponseWriter, m *dns.Msg) {
		if _, udp := w.RemoteAddr().(*net.UDPAddr); udp {
			answer := new(dns.Msg).SetReply(m)
			answer.Truncated = true
			_ = w.WriteMsg(answer)
			return
		}
		says("192.0.2.3", 300)(w, m)
	})
	f, _ := newForwarder(t, r.at)
	ip, a := ask(t, f, "a.example.")
	require.Equal(t, "192.0.2.3", ip)
	require.False(t, a.Msg.Truncated)
}

func TestUpstreamWithoutEDNS(t *testing.T) {
	t.Parallel()
	r := newResolver(t, func(w dns.ResponseWriter, m *dns.Msg) {
		if m.IsEdns0() != nil {
			answer := new(dns.Msg)
			answer.Id, answer.Response, answer.Rcode = m.Id, true, dns.RcodeFormatError
			_ = w.WriteMsg(answer)
			return
		}
		says("192.0.2.3", 300)(w, m)
	})
	f, _ := newForwarder(t, r.at)
	ip, _ := ask(t, f, "a.example.")
	require.Equal(t, "192.0.2.3", ip)
}

func TestAnswerToAnotherQuestionIsRejected(t *testing.T) {
	t.Parallel()
	liar := newResolver(t, func(w dns.ResponseWriter, m *dns.Msg) {
		m.Question[0].Name = "victim.example."
		says("192.0.2.66", 300)(w, m)
	})
	f, _ := newForwarder(t, liar.at)
	_, err := f.Ask(t.Context(), about("a.example."))
	require.ErrorContains(t, err, "it answered another question")
	_, known := f.Known(about("victim.example."))
	require.False(t, known)
}

func TestEqualQuestionsAreAskedOnce(t *testing.T) {
	t.Parallel()
	const clients = 20
	release := make(chan struct{})
	r := newResolver(t, nil)
	r.set(func(w dns.ResponseWriter, m *dns.Msg) {
		<-release
		says("192.0.2.1", 0)(w, m) // not cacheable
	})
	f, _ := newForwarder(t, r.at)
	var arriving, done sync.WaitGroup
	for range clients {
		arriving.Add(1)
		done.Go(func() {
			arriving.Done()
			a, err := f.Ask(context.Background(), about("a.example."))
			if err != nil || a.Msg.Answer[0].Header().Ttl != 0 {
				t.Error(a, err)
			}
		})
	}
	arriving.Wait()
	require.Eventually(t, func() bool { return r.asked.Load() == 1 }, 5*time.Second, time.Millisecond)
	close(release)
	done.Wait()
	require.LessOrEqual(t, r.asked.Load(), int32(clients/2), "they were under way together, whoever came first")
}

func TestCancellingOneClientKeepsTheQuery(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	r := newResolver(t, nil)
	r.set(func(w dns.ResponseWriter, m *dns.Msg) { <-release; says("192.0.2.1", 300)(w, m) })
	f, _ := newForwarder(t, r.at)
	impatient, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() { _, err := f.Ask(impatient, about("a.example.")); gone <- err }()
	require.Eventually(t, func() bool { return r.asked.Load() == 1 }, 5*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	close(release)
	ip, _ := ask(t, f, "a.example.")
	require.Equal(t, "192.0.2.1", ip)
	require.EqualValues(t, 1, r.asked.Load())
}

func TestLoopingUpstreamIsNotUsed(t *testing.T) {
	t.Parallel()
	f, _ := newForwarder(t)
	circle := newResolver(t, func(w dns.ResponseWriter, m *dns.Msg) {
		if f.Looped(m.Question[0].Name) { // as if it had come to us
			code(dns.RcodeNameError)(w, m)
			return
		}
		says("192.0.2.66", 300)(w, m)
	})
	good := newResolver(t, says("192.0.2.1", 300))
	f.Use([]netip.AddrPort{circle.at, good.at})
	f.FindLoops(t.Context())
	ip, _ := ask(t, f, "a.example.")
	require.Equal(t, "192.0.2.1", ip)
	require.False(t, f.Looped("a.example."))
	require.True(t, f.Looped("other.loop-check.mesh-agent."), "that of another agent is nobody's to answer")
	require.EqualValues(t, 2, good.asked.Load(), "it was asked once whether it does, too")
	require.True(t, strings.HasPrefix(good.at.String(), "127."))
}
