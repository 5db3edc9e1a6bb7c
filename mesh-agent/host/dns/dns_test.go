package dns_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	meshdns "github.com/pgmesh/pgmesh/mesh-agent/host/dns"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = 10 * time.Second

// elsewhere is an upstream that knows names outside the mesh.
type elsewhere struct {
	at    netip.AddrPort
	asked atomic.Int32
}

func newElsewhere(t *testing.T, ip string) *elsewhere {
	t.Helper()
	e := &elsewhere{}
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	e.at = packets.LocalAddr().(*net.UDPAddr).AddrPort()
	started := make(chan struct{})
	server := &dns.Server{PacketConn: packets, NotifyStartedFunc: func() { close(started) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
		if !strings.HasSuffix(m.Question[0].Name, ".loop-check.mesh-agent.") {
			e.asked.Add(1)
		}
		answer := new(dns.Msg).SetReply(m)
		if name := m.Question[0].Name; m.Question[0].Qtype == dns.TypeA && strings.HasSuffix(name, ".test.") {
			rr, _ := dns.NewRR(name + " 300 IN A " + ip)
			answer.Answer = []dns.RR{rr}
		} else {
			soa, _ := dns.NewRR(". 86400 IN SOA a.root. nstld.example. 1 1800 900 604800 86400")
			answer.Rcode, answer.Ns = dns.RcodeNameError, []dns.RR{soa}
		}
		_ = w.WriteMsg(answer)
	})}
	var ended sync.WaitGroup
	ended.Go(func() { _ = server.ActivateAndServe() })
	<-started
	t.Cleanup(func() { _ = server.Shutdown(); ended.Wait() })
	return e
}

// asker is a client of a running resolver.
type asker struct {
	*meshdns.Server

	at      string
	metrics *prometheus.Registry
}

func start(t *testing.T, change func(*meshdns.Options)) *asker {
	t.Helper()
	resolvConf := filepath.Join(t.TempDir(), "resolv.conf")
	require.NoError(t, os.WriteFile(resolvConf, []byte("search lan.test\n"), 0o600))
	a := &asker{metrics: prometheus.NewRegistry()}
	o := meshdns.Options{
		Listen: []string{"127.0.0.1:0"}, Domain: "shop.svc.cluster.local", TTL: 30 * time.Second, ResolvConf: resolvConf,
		Log: slog.New(slog.DiscardHandler), Metrics: a.metrics,
	}
	if change != nil {
		change(&o)
	}
	var err error
	a.Server, err = meshdns.Open(o)
	require.NoError(t, err)
	a.at = a.Addresses()[0].String()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
	return a
}

// mesh starts a resolver with names.
func mesh(t *testing.T, change func(*meshdns.Options)) (*asker, *elsewhere) {
	t.Helper()
	e := newElsewhere(t, "192.0.2.80")
	a := start(t, func(o *meshdns.Options) {
		o.Upstreams = []string{e.at.String()}
		if change != nil {
			change(o)
		}
	})
	a.take(t, shopNames())
	return a, e
}

func shopNames() *ndsv1.NameTable {
	many := &ndsv1.NameTable_NameInfo{}
	for n := range 100 {
		many.Ips = append(many.Ips, fmt.Sprintf("10.9.0.%d", n), fmt.Sprintf("fd00::%x", n))
	}
	return &ndsv1.NameTable{Table: map[string]*ndsv1.NameTable_NameInfo{
		"reviews.shop.svc.cluster.local": {
			Ips:   []string{"240.240.0.1", "2001:2::f0f0:1"},
			Ports: []*ndsv1.NameTable_Port{{Number: 80, Name: "http"}, {Number: 9000, Name: "http"}, {Number: 53, Name: "dns", Udp: true}},
		},
		"api.example.com":   {Ips: []string{"240.240.0.2"}},
		"*.wild.example":    {Ips: []string{"10.0.0.3"}},
		"mail.test":         {Ips: []string{"10.0.0.4"}},
		"several.example":   {Ips: []string{"10.0.0.5", "10.0.0.6", "10.0.0.7"}},
		"many.example":      many,
		"six.example":       {Ips: []string{"fd00::6"}},
		"no-address.shop.a": {},
	}}
}

func (a *asker) take(t *testing.T, table *ndsv1.NameTable) {
	t.Helper()
	a.Names(table)
	want := 0
	for _, info := range table.GetTable() {
		if len(info.GetIps()) > 0 {
			want++
		}
	}
	require.Eventually(t, func() bool { n, known := a.Known(); return known && n == want }, limit, time.Millisecond)
}

func (a *asker) ask(t *testing.T, name string, kind uint16) *dns.Msg {
	t.Helper()
	return a.exchange(t, "udp", new(dns.Msg).SetQuestion(dns.Fqdn(name), kind))
}

func (a *asker) exchange(t *testing.T, network string, m *dns.Msg) *dns.Msg {
	t.Helper()
	client := dns.Client{Net: network, Timeout: limit, UDPSize: dns.MaxMsgSize}
	answer, _, err := client.Exchange(m, a.at)
	require.NoError(t, err)
	return answer
}

// records formats answers without their TTLs.
func records(rrs []dns.RR) (out []string) {
	for _, rr := range rrs {
		out = append(out, strings.Join(append(strings.Fields(rr.String())[:1], strings.Fields(rr.String())[3:]...), " "))
	}
	return out
}

func TestNamesOfTheMesh(t *testing.T) {
	t.Parallel()
	a, e := mesh(t, nil)
	const reviews = "reviews.shop.svc.cluster.local."
	for _, c := range []struct {
		name string
		kind uint16
		want []string
	}{
		{reviews, dns.TypeA, []string{reviews + " A 240.240.0.1"}},
		{reviews, dns.TypeAAAA, []string{reviews + " AAAA 2001:2::f0f0:1"}},
		{reviews, dns.TypeANY, []string{reviews + " A 240.240.0.1", reviews + " AAAA 2001:2::f0f0:1"}},
		{"rEvIeWs.", dns.TypeA, []string{"rEvIeWs. A 240.240.0.1"}},
		{"reviews.shop.", dns.TypeA, []string{"reviews.shop. A 240.240.0.1"}},
		{"API.example.com.", dns.TypeA, []string{"API.example.com. A 240.240.0.2"}},
		{"x.y.wild.example.", dns.TypeA, []string{"x.y.wild.example. A 10.0.0.3"}},
		{"api.example.com.shop.svc.cluster.local.", dns.TypeA, []string{
			"api.example.com.shop.svc.cluster.local. CNAME api.example.com.", "api.example.com. A 240.240.0.2",
		}},
		{"api.example.com.lan.test.", dns.TypeA, []string{"api.example.com.lan.test. CNAME api.example.com.", "api.example.com. A 240.240.0.2"}},
		{"api.example.com.lan.test.", dns.TypeCNAME, []string{"api.example.com.lan.test. CNAME api.example.com."}},
		{"_http._tcp.reviews.shop.", dns.TypeSRV, []string{
			"_http._tcp.reviews.shop. SRV 0 1 80 reviews.shop.", "_http._tcp.reviews.shop. SRV 0 1 9000 reviews.shop.",
		}},
		{"_dns._udp." + reviews, dns.TypeSRV, []string{"_dns._udp." + reviews + " SRV 0 1 53 " + reviews}},
		{"1.0.240.240.in-addr.arpa.", dns.TypePTR, []string{"1.0.240.240.in-addr.arpa. PTR " + reviews}},
		{"localhost.", dns.TypeA, []string{"localhost. A 127.0.0.1"}},
		{"foo.LOCALHOST.", dns.TypeAAAA, []string{"foo.LOCALHOST. AAAA ::1"}},
	} {
		answer := a.ask(t, c.name, c.kind)
		require.Equal(t, dns.RcodeSuccess, answer.Rcode, c.name)
		require.Equal(t, c.want, records(answer.Answer), c.name)
		require.True(t, answer.Authoritative, c.name)
		require.True(t, answer.RecursionAvailable, c.name)
		require.LessOrEqual(t, answer.Answer[0].Header().Ttl, uint32(30))
		require.Equal(t, c.name, answer.Question[0].Name, "in the letters that were asked with")
	}
	require.Zero(t, e.asked.Load(), "nobody else is told what is asked of the mesh")
	require.Equal(t, []string{"reviews.shop. A 240.240.0.1", "reviews.shop. AAAA 2001:2::f0f0:1"},
		records(a.ask(t, "_http._tcp.reviews.shop", dns.TypeSRV).Extra), "who asks for ports will ask for addresses")
}

func TestMissingTypesAreNotForwarded(t *testing.T) {
	t.Parallel()
	a, e := mesh(t, nil)
	for name, kinds := range map[string][]uint16{
		"api.example.com":          {dns.TypeAAAA, dns.TypeHTTPS, dns.TypeSVCB, dns.TypeNS, dns.TypeSOA, dns.TypeDS},
		"six.example":              {dns.TypeA},
		"a.wild.example":           {dns.TypeAAAA},
		"_http._tcp.reviews":       {dns.TypeA},
		"api.example.com.lan.test": {dns.TypeAAAA},
		"localhost":                {dns.TypeMX},
	} {
		for _, kind := range kinds {
			answer := a.ask(t, name, kind)
			require.Equal(t, dns.RcodeSuccess, answer.Rcode, "%s exists", name)
			for _, rr := range answer.Answer {
				require.Equal(t, dns.TypeCNAME, rr.Header().Rrtype)
			}
			require.Len(t, answer.Ns, 1, name)
			soa := answer.Ns[0].(*dns.SOA)
			require.EqualValues(t, 5, min(soa.Hdr.Ttl, soa.Minttl), "it may get one soon")
		}
	}
	answer := a.ask(t, "2.2.240.240.in-addr.arpa", dns.TypePTR)
	require.Equal(t, dns.RcodeNameError, answer.Rcode)
	require.Zero(t, e.asked.Load())
}

func TestMXAndTXTAreForwarded(t *testing.T) {
	t.Parallel()
	a, e := mesh(t, nil)
	answer := a.ask(t, "api.example.com", dns.TypeMX)
	require.EqualValues(t, 1, e.asked.Load())
	require.Equal(t, dns.RcodeSuccess, answer.Rcode, "elsewhere there is no such name; here there is")
	require.Empty(t, answer.Answer)
	require.Len(t, answer.Ns, 1)
}

func TestOtherNamesAreForwarded(t *testing.T) {
	t.Parallel()
	a, e := mesh(t, nil)
	answer := a.ask(t, "wWw.Test", dns.TypeA)
	require.Equal(t, []string{"wWw.Test. A 192.0.2.80"}, records(answer.Answer), "in the letters that were asked with")
	require.False(t, answer.Authoritative)
	answer = a.ask(t, "www.test", dns.TypeA)
	require.Equal(t, []string{"www.test. A 192.0.2.80"}, records(answer.Answer))
	require.EqualValues(t, 1, e.asked.Load(), "once")

	for _, name := range []string{"nothing.example", "unknown.shop.svc.cluster.local", "_https._tcp.reviews.shop.svc.cluster.local", "1.2.0.192.in-addr.arpa"} {
		answer = a.ask(t, name, dns.TypeSRV)
		require.Equal(t, dns.RcodeNameError, answer.Rcode, name)
		soa := answer.Ns[0].(*dns.SOA)
		require.EqualValues(t, 30, min(soa.Hdr.Ttl, soa.Minttl), "it may join the mesh")
	}
}

func TestShortNegativeTTLBeforeTheFirstTable(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, "192.0.2.80")
	a := start(t, func(o *meshdns.Options) { o.Upstreams = []string{e.at.String()} })
	answer := a.ask(t, "reviews.shop.svc.cluster.local", dns.TypeA)
	require.Equal(t, dns.RcodeNameError, answer.Rcode)
	require.EqualValues(t, 1, answer.Ns[0].(*dns.SOA).Minttl)
	require.Equal(t, []string{"www.test. A 192.0.2.80"}, records(a.ask(t, "www.test", dns.TypeA).Answer))
	a.take(t, shopNames())
	require.Len(t, a.ask(t, "reviews.shop.svc.cluster.local", dns.TypeA).Answer, 1)
	a.take(t, &ndsv1.NameTable{})
	require.Equal(t, dns.RcodeNameError, a.ask(t, "reviews.shop.svc.cluster.local", dns.TypeA).Rcode, "what left the mesh is gone")
}

func TestAddressesRotate(t *testing.T) {
	t.Parallel()
	a, _ := mesh(t, nil)
	first := map[string]int{}
	for range 30 {
		answer := a.ask(t, "several.example", dns.TypeA)
		require.Len(t, answer.Answer, 3)
		first[answer.Answer[0].(*dns.A).A.String()]++
	}
	require.Equal(t, map[string]int{"10.0.0.5": 10, "10.0.0.6": 10, "10.0.0.7": 10}, first)
}

func TestAnswersFit(t *testing.T) {
	t.Parallel()
	a, _ := mesh(t, nil)
	ask := func(network string, size uint16) *dns.Msg {
		m := new(dns.Msg).SetQuestion("many.example.", dns.TypeANY)
		if size > 0 {
			m.SetEdns0(size, false)
		}
		return a.exchange(t, network, m)
	}
	for size, want := range map[uint16]int{0: 512, 100: 512, 512: 512, 1232: 1232, 4096: 1232} {
		answer := ask("udp", size)
		require.True(t, answer.Truncated)
		require.NotEmpty(t, answer.Answer)
		answer.Compress = true
		packed, err := answer.Pack()
		require.NoError(t, err)
		require.LessOrEqual(t, len(packed), want)
		require.Equal(t, size > 0, answer.IsEdns0() != nil, "who speaks EDNS is spoken to in EDNS")
	}
	whole := ask("tcp", 0)
	require.False(t, whole.Truncated)
	require.Len(t, whole.Answer, 200)
}

func TestUnsupportedQueries(t *testing.T) {
	t.Parallel()
	a, e := mesh(t, nil)
	ask := func(change func(m *dns.Msg)) int {
		m := new(dns.Msg).SetQuestion("www.test.", dns.TypeA)
		change(m)
		return a.exchange(t, "tcp", m).Rcode
	}
	require.Equal(t, dns.RcodeNotImplemented, ask(func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }))
	require.Equal(t, dns.RcodeFormatError, ask(func(m *dns.Msg) { m.Question = append(m.Question, m.Question...) }))
	require.Equal(t, dns.RcodeFormatError, ask(func(m *dns.Msg) { m.Question = nil }))
	require.Equal(t, dns.RcodeRefused, ask(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAXFR }))
	require.Equal(t, dns.RcodeRefused, ask(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassANY }))
	require.Equal(t, dns.RcodeBadVers, ask(func(m *dns.Msg) { m.SetEdns0(1232, false); m.IsEdns0().SetVersion(1) }))
	require.Zero(t, e.asked.Load())

	conn, err := net.Dial("udp", a.at)
	require.NoError(t, err)
	defer conn.Close()
	answer := new(dns.Msg).SetQuestion("www.test.", dns.TypeA)
	answer.Response, answer.Id = true, 1
	for _, m := range []*dns.Msg{answer, new(dns.Msg).SetQuestion("localhost.", dns.TypeA)} {
		packed, err := m.Pack()
		require.NoError(t, err)
		_, err = conn.Write(packed)
		require.NoError(t, err)
		_, err = conn.Write([]byte("no message"))
		require.NoError(t, err)
	}
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(limit)))
	buffer := make([]byte, 512)
	for {
		n, err := conn.Read(buffer)
		require.NoError(t, err)
		var got dns.Msg
		require.NoError(t, got.Unpack(buffer[:n]))
		require.NotEqual(t, uint16(1), got.Id, "answers are not answered")
		if len(got.Answer) > 0 {
			break
		}
	}
}

func TestNoUpstreamIsReported(t *testing.T) {
	t.Parallel()
	a := start(t, nil)
	m := new(dns.Msg).SetQuestion("www.test.", dns.TypeA)
	m.SetEdns0(1232, false)
	answer := a.exchange(t, "udp", m)
	require.Equal(t, dns.RcodeServerFailure, answer.Rcode)
	require.Contains(t, answer.IsEdns0().String(), "--dns-upstream")
}

func TestCHAOSExplains(t *testing.T) {
	t.Parallel()
	a, _ := mesh(t, nil)
	explained := func(name string) string {
		m := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeTXT)
		m.Question[0].Qclass = dns.ClassCHAOS
		var out []string
		for _, rr := range a.exchange(t, "tcp", m).Answer {
			out = append(out, strings.Join(rr.(*dns.TXT).Txt, ""))
		}
		return strings.Join(out, "\n")
	}
	text := explained("reviews")
	require.Contains(t, text, "reviews. A: 240.240.0.1\nfrom mesh: it is short for reviews.shop.svc.cluster.local")
	require.Contains(t, text, "port 80 (http)")
	require.Contains(t, text, "the mesh has 7 names")
	require.Contains(t, explained("api.example.com.lan.test"), "it is api.example.com with the search domain lan.test")
	require.Contains(t, explained("www.test"), "www.test. A: 192.0.2.80\nfrom upstream")
	text = explained("www.test")
	require.Contains(t, text, "from cache: other resolvers were asked: 127.0.0.1:")
	require.Contains(t, text, "remembered for 0s")
	require.Contains(t, explained("gone.example"), "gone.example. A: NXDOMAIN")
}

func TestResolvConfIsFollowed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	}
	write(path, "nameserver 127.0.0.53\nnameserver 192.0.2.7\n")
	write(path+".upstream", "nameserver 192.0.2.8\nnameserver 127.0.0.53\n")
	for around, want := range map[bool]string{false: "[127.0.0.53:53 192.0.2.7:53]", true: "[192.0.2.8:53]"} {
		a := start(t, func(o *meshdns.Options) { o.ResolvConf, o.BypassStub = path, func() bool { return around } })
		require.Contains(t, a.upstreams(t), "other resolvers: "+want)
	}
	write(path, "")
	a := start(t, func(o *meshdns.Options) { o.ResolvConf = path })
	require.Contains(t, a.upstreams(t), "other resolvers: [], search domains: []")
	write(path, "nameserver 192.0.2.9\nsearch a.example\n")
	require.Eventually(t, func() bool {
		return strings.Contains(a.upstreams(t), "other resolvers: [192.0.2.9:53], search domains: [a.example]")
	}, limit, 20*time.Millisecond)
}

func (a *asker) upstreams(t *testing.T) string {
	t.Helper()
	m := new(dns.Msg).SetQuestion("localhost.", dns.TypeTXT)
	m.Question[0].Qclass = dns.ClassCHAOS
	answer := a.exchange(t, "udp", m).Answer
	return strings.Join(answer[len(answer)-1].(*dns.TXT).Txt, "")
}

func TestIdleTCPConnectionsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	a, _ := mesh(t, nil)
	for range 128 {
		conn, err := net.Dial("tcp", a.at)
		require.NoError(t, err)
		defer conn.Close()
	}
	late, err := net.Dial("tcp", a.at)
	require.NoError(t, err)
	defer late.Close()
	require.NoError(t, late.SetReadDeadline(time.Now().Add(limit)))
	_, err = late.Read(make([]byte, 1))
	require.Error(t, err)
	require.False(t, os.IsTimeout(err), "who finds no place is told so: %v", err)
	require.Len(t, a.ask(t, "api.example.com", dns.TypeA).Answer, 1, "by UDP there are no places")
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	a, _ := mesh(t, nil)
	a.ask(t, "api.example.com", dns.TypeA)
	a.ask(t, "www.test", dns.TypeA)
	a.ask(t, "www.test", dns.TypeA)
	a.ask(t, "api.example.com", 65280)
	require.Eventually(t, func() bool { // it counts after it answers
		families, err := a.metrics.Gather()
		require.NoError(t, err)
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				labels := []string{f.GetName()}
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetValue())
				}
				got[strings.Join(labels, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
		return got["pgmesh_mesh_agent_dns_queries_total NOERROR mesh A"] == 1 && got["pgmesh_mesh_agent_dns_queries_total NOERROR upstream A"] == 1 &&
			got["pgmesh_mesh_agent_dns_queries_total NOERROR cache A"] == 1 && got["pgmesh_mesh_agent_dns_queries_total NOERROR upstream other"] == 1 &&
			got["pgmesh_mesh_agent_dns_names"] == 7 && got["pgmesh_mesh_agent_dns_upstreams_well"] == 1 && got["pgmesh_mesh_agent_dns_cache_entries"] == 2
	}, limit, 10*time.Millisecond)
}

func TestInvalidAddressesAreExplained(t *testing.T) {
	t.Parallel()
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for want, o := range map[string]meshdns.Options{
		"--dns-listen 0.0.0.0:53: a resolver on every address serves the whole world":           {Listen: []string{"0.0.0.0:53"}},
		"--dns-listen localhost: expected an address of this machine with a port":               {Listen: []string{"localhost"}},
		"another program listens there; stop it, or choose another address":                     {Listen: []string{"127.0.0.1:0", taken.LocalAddr().String()}},
		"--dns-listen 192.0.2.1:53: this machine does not have that address":                    {Listen: []string{"192.0.2.1:53"}},
		"--dns-upstream dns.example: expected the address of a resolver, as 192.0.2.53, 192.0.": {Upstreams: []string{"dns.example"}},
	} {
		o.Log = slog.New(slog.DiscardHandler)
		_, err := meshdns.Open(o)
		require.ErrorContains(t, err, want)
	}
}

func TestProxyGetsNoNamesOfTheMesh(t *testing.T) {
	t.Parallel()
	a, _ := mesh(t, func(o *meshdns.Options) { o.Proxy = "127.0.0.1:0" })
	require.Len(t, a.Addresses(), 1)
	require.Equal(t, []string{"mail.test. A 10.0.0.4"}, records(a.ask(t, "mail.test", dns.TypeA).Answer))
	a.at = a.ProxyAddress().String()
	require.Equal(t, []string{"mail.test. A 192.0.2.80"}, records(a.ask(t, "mail.test", dns.TypeA).Answer), "it looks for what is behind the service")
	require.Equal(t, dns.RcodeNameError, a.ask(t, "api.example.com", dns.TypeA).Rcode)
	require.Len(t, a.ask(t, "localhost", dns.TypeA).Answer, 1)
}

func TestSeveralAddressesAndIPv6(t *testing.T) {
	t.Parallel()
	a, _ := mesh(t, func(o *meshdns.Options) { o.Listen = []string{"127.0.0.1:0", "[::1]:0", "127.0.0.2:0"} })
	require.Len(t, a.Addresses(), 3)
	for _, at := range a.Addresses() {
		a.at = at.String()
		require.Len(t, a.ask(t, "api.example.com", dns.TypeA).Answer, 1)
		require.Len(t, a.exchange(t, "tcp", new(dns.Msg).SetQuestion("api.example.com.", dns.TypeA)).Answer, 1)
	}
}
