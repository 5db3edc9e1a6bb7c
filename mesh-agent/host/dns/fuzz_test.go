package dns

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/names"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// writer records an answer.
type writer struct {
	dns.ResponseWriter

	from net.Addr
}

func (w writer) RemoteAddr() net.Addr { return w.from }

// FuzzMessages holds that a resolver without upstreams answers anything: each answer can be packed,
// fits, and is for the question.
func FuzzMessages(f *testing.F) {
	s, err := Open(Options{ResolvConf: f.TempDir() + "/none", Domain: "shop.svc.cluster.local", TTL: time.Second, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	table := &ndsv1.NameTable{Table: map[string]*ndsv1.NameTable_NameInfo{
		"a.b":         {Ips: []string{"240.240.0.1", "2001:2::1"}, Ports: []*ndsv1.NameTable_Port{{Number: 1, Name: "x"}}},
		"*.c.example": {Ips: []string{"10.0.0.1"}},
	}}
	s.current.Store(&state{table: table, known: true, names: names.New(table, names.Options{Domain: s.Domain, Search: []string{"lan"}})})
	for _, name := range []string{"a.b.", "x.c.example.", "a.b.lan.", "_x._tcp.a.b.", "1.0.240.240.in-addr.arpa.", "localhost.", "."} {
		for _, kind := range []uint16{dns.TypeA, dns.TypeANY, dns.TypeSRV, dns.TypePTR, dns.TypeMX, dns.TypeTXT} {
			for _, class := range []uint16{dns.ClassINET, dns.ClassCHAOS} {
				m := new(dns.Msg).SetQuestion(name, kind)
				m.Question[0].Qclass = class
				packed, err := m.Pack()
				if err != nil {
					f.Fatal(err)
				}
				f.Add(packed)
			}
		}
	}
	from := writer{from: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := new(dns.Msg)
		if m.Unpack(data) != nil || len(m.Question) != 1 {
			return
		}
		answer, kind := s.complete(from, m, endpoint{proxy: m.Id%2 == 1})
		packed, err := answer.Pack()
		if err != nil {
			t.Fatalf("%v: %v", err, answer)
		}
		if !answer.Response || answer.Id != m.Id || kind == "" || len(packed) > 1232 || m.IsEdns0() == nil && len(packed) > 512 {
			t.Fatalf("%d bytes: %v", len(packed), answer)
		}
	})
}
