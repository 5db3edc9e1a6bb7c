package dns

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/forward"
)

// endpoint is where a query came in.
type endpoint struct {
	at    netip.AddrPort
	proxy bool // for the machine's own proxy
}

// handle answers one query. Beyond maxQueries it drops it: silence makes resolvers slow down or ask
// elsewhere.
func (s *Server) handle(w dns.ResponseWriter, m *dns.Msg, by endpoint) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		s.metrics.dropped.Inc()
		return
	}
	begun := time.Now()
	answer, kind := s.complete(w, m, by)
	_ = w.WriteMsg(answer) // the client may be gone
	s.metrics.count(m.Question[0].Qtype, kind, answer.Rcode, time.Since(begun))
}

// complete returns the answer, limited to what the client accepts.
func (s *Server) complete(w dns.ResponseWriter, m *dns.Msg, by endpoint) (*dns.Msg, origin) {
	var r reply
	asked := m.IsEdns0()
	switch {
	case !isAllowed(w.RemoteAddr(), by.at):
		r = reply{Msg: new(dns.Msg).SetRcode(m, dns.RcodeRefused), origin: refused}
		r.warning = &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeProhibited, ExtraText: "this resolver is for its machine and private networks"}
	case asked != nil && asked.Version() != 0:
		r = reply{Msg: new(dns.Msg).SetRcode(m, dns.RcodeBadVers), origin: refused}
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
	return r.Msg, r.origin
}

func withoutOPT(extra []dns.RR) (out []dns.RR) {
	for _, rr := range extra {
		if rr.Header().Rrtype != dns.TypeOPT {
			out = append(out, rr)
		}
	}
	return out
}
