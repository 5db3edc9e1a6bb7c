package dns

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/pgmesh/pgmesh/mesh-agent/dns/forward"
)

// asker is who asks, by where.
type asker struct {
	at    netip.AddrPort
	proxy bool // it is the machine's own proxy
}

// handle answers one message, unless there are too many already: then silence is what makes resolvers slow down or go elsewhere.
func (s *Server) handle(w dns.ResponseWriter, m *dns.Msg, by asker) {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		s.metrics.dropped.Inc()
		return
	}
	begun := time.Now()
	answer, kind := s.complete(w, m, by)
	_ = w.WriteMsg(answer) // who is gone needs none
	s.metrics.count(m.Question[0].Qtype, kind, answer.Rcode, time.Since(begun))
}

// complete is the whole answer, as long as it may be.
func (s *Server) complete(w dns.ResponseWriter, m *dns.Msg, by asker) (*dns.Msg, kind) {
	var r reply
	asked := m.IsEdns0()
	switch {
	case !mayAsk(w.RemoteAddr(), by.at):
		r = reply{Msg: new(dns.Msg).SetRcode(m, dns.RcodeRefused), kind: refused}
		r.warning = &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeProhibited, ExtraText: "this resolver is for its machine and private networks"}
	case asked != nil && asked.Version() != 0:
		r = reply{Msg: new(dns.Msg).SetRcode(m, dns.RcodeBadVers), kind: refused}
	default:
		r = s.respond(context.Background(), m, by.proxy)
	}
	size := dns.MaxMsgSize
	if _, udp := w.RemoteAddr().(*net.UDPAddr); udp {
		size = dns.MinMsgSize
		if asked != nil {
			size = max(size, min(int(asked.UDPSize()), forward.UDPSize))
		}
	}
	r.Extra = withoutOPT(r.Extra)
	if asked != nil {
		r.SetEdns0(forward.UDPSize, asked.Do())
		if o := r.IsEdns0(); r.warning != nil {
			o.Option = append(o.Option, r.warning)
		}
	}
	r.Truncate(size)
	r.Compress = true
	return r.Msg, r.kind
}

func withoutOPT(extra []dns.RR) (out []dns.RR) {
	for _, rr := range extra {
		if rr.Header().Rrtype != dns.TypeOPT {
			out = append(out, rr)
		}
	}
	return out
}
