package dns

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/forward"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/names"
)

// origin is where an answer comes from, for metrics and explanations.
type origin string

const (
	fromMesh     origin = "mesh"
	fromMachine  origin = "machine" // localhost
	fromUpstream origin = "upstream"
	fromCache    origin = "cache"
	fromStale    origin = "stale"
	refused      origin = "refused"
	failed       origin = "failed"
)

const (
	// negativeTTL bounds how long clients may cache that a name does not exist: it may join the
	// mesh.
	negativeTTL = 30
	// meshNegativeTTL is the same for names of the mesh.
	meshNegativeTTL = 5
	// unknownTTL is the same until discovery has sent the names.
	unknownTTL = 1
)

// reply is an answer before size limits and EDNS are applied.
type reply struct {
	*dns.Msg

	origin  origin
	why     string
	warning *dns.EDNS0_EDE // extended DNS error (RFC 8914)
}

// respond answers a question.
func (s *Server) respond(ctx context.Context, m *dns.Msg, proxy bool) reply {
	q := m.Question[0]
	r := reply{Msg: new(dns.Msg)}
	r.SetReply(m)
	r.RecursionAvailable = true
	switch {
	case q.Qclass == dns.ClassCHAOS && q.Qtype == dns.TypeTXT:
		s.explain(ctx, &r, q)
		return r
	case q.Qclass != dns.ClassINET, q.Qtype == dns.TypeAXFR, q.Qtype == dns.TypeIXFR, q.Qtype == dns.TypeMAILA, q.Qtype == dns.TypeMAILB:
		r.origin, r.Rcode, r.why = refused, dns.RcodeRefused, "names of the Internet are answered for, one at a time"
		return r
	case s.forward.Looped(q.Name):
		r.origin, r.Rcode = refused, dns.RcodeNameError
		return r
	}
	if answerLocalhost(&r, q) || !proxy && s.answerFromMesh(&r, q) {
		return r
	}
	s.answerFromUpstream(ctx, &r, m, q)
	if !proxy {
		s.correctNXDOMAIN(&r, q)
	}
	return r
}

// answerLocalhost answers for localhost, which a resolver must not forward (RFC 6761).
func answerLocalhost(r *reply, q dns.Question) bool {
	name := strings.ToLower(q.Name)
	if name != "localhost." && !strings.HasSuffix(name, ".localhost.") {
		return false
	}
	r.origin, r.Authoritative, r.why = fromMachine, true, "it is this machine (RFC 6761)"
	host := names.Host{IPv4: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, IPv6: []netip.Addr{netip.IPv6Loopback()}}
	r.Answer = addresses(&host, q.Name, q.Qtype, 0, negativeTTL)
	r.setNegativeTTL()
	return true
}

// answerFromMesh answers for a name of the mesh. It leaves to upstreams the types by which nobody
// connects.
func (s *Server) answerFromMesh(r *reply, q dns.Question) bool {
	x := s.current.Load().names
	if q.Qtype == dns.TypePTR {
		return s.answerPTR(r, q, x)
	}
	if port, transport, host, ok := names.Service(q.Name); ok {
		return s.answerSRV(r, q, x, port, transport, host)
	}
	found, ok := x.Find(q.Name)
	if !ok {
		return false
	}
	if isForeignType(q.Qtype) {
		return false
	}
	s.setMesh(r, found.Why)
	owner := q.Name
	if found.Target != "" {
		owner = dns.Fqdn(found.Target)
		r.Answer = append(r.Answer, &dns.CNAME{Hdr: s.header(q.Name, dns.TypeCNAME), Target: owner})
	}
	if q.Qtype != dns.TypeCNAME {
		r.Answer = append(r.Answer, addresses(found.Host, owner, q.Qtype, s.rotation.Add(1), s.seconds())...)
	}
	r.setNegativeTTL()
	return true
}

// isForeignType reports whether others answer for a type even for names of the mesh: nobody
// connects by it, such as MX and TXT, and a host of the mesh may exist on the Internet too.
func isForeignType(t uint16) bool {
	switch t {
	case dns.TypeA, dns.TypeAAAA, dns.TypeANY, dns.TypeCNAME, dns.TypeSRV, dns.TypeHTTPS, dns.TypeSVCB, dns.TypeNS, dns.TypeSOA, dns.TypeDS, dns.TypeDNSKEY:
		return false
	default:
		return true
	}
}

func (s *Server) setMesh(r *reply, why string) {
	r.origin, r.why, r.Authoritative = fromMesh, why, true
}

func (s *Server) seconds() uint32 { return uint32(s.TTL / time.Second) }

func (s *Server) header(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: s.seconds()}
}

// addresses returns the address records of a host, rotated by turn.
func addresses(h *names.Host, owner string, asked uint16, turn, ttl uint32) (out []dns.RR) {
	header := dns.RR_Header{Name: owner, Class: dns.ClassINET, Ttl: ttl}
	if asked == dns.TypeA || asked == dns.TypeANY {
		header.Rrtype = dns.TypeA
		for i := range h.IPv4 {
			ip := h.IPv4[(i+int(turn))%len(h.IPv4)]
			out = append(out, &dns.A{Hdr: header, A: ip.AsSlice()})
		}
	}
	if asked == dns.TypeAAAA || asked == dns.TypeANY {
		header.Rrtype = dns.TypeAAAA
		for i := range h.IPv6 {
			ip := h.IPv6[(i+int(turn))%len(h.IPv6)]
			out = append(out, &dns.AAAA{Hdr: header, AAAA: ip.AsSlice()})
		}
	}
	return out
}

// setNegativeTTL adds a SOA record to an empty answer, which says how long to cache it.
func (r *reply) setNegativeTTL() {
	for _, rr := range r.Answer {
		if rr.Header().Rrtype != dns.TypeCNAME || r.Question[0].Qtype == dns.TypeCNAME {
			return
		}
	}
	owner := r.Question[0].Name
	if n := len(r.Answer); n > 0 {
		owner = r.Answer[n-1].(*dns.CNAME).Target
	}
	r.Ns = []dns.RR{&dns.SOA{
		Hdr: dns.RR_Header{Name: owner, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: meshNegativeTTL},
		Ns:  "mesh-agent.invalid.", Mbox: "nobody.invalid.",
		Serial: 1, Refresh: 60, Retry: 60, Expire: 60, Minttl: meshNegativeTTL,
	}}
}

// answerSRV answers for _NAME._tcp.HOST. Unknown ports are left to upstreams: the service may be
// none of the mesh.
func (s *Server) answerSRV(r *reply, q dns.Question, x *names.Index, port, transport, host string) bool {
	found, ok := x.Find(host)
	if !ok {
		return false
	}
	served := found.Served(port, transport)
	if len(served) == 0 {
		return false
	}
	s.setMesh(r, found.Why+", with that port")
	target := dns.Fqdn(host)
	if found.Target != "" {
		target = dns.Fqdn(found.Target)
	}
	if q.Qtype == dns.TypeSRV || q.Qtype == dns.TypeANY {
		for _, p := range served {
			r.Answer = append(r.Answer, &dns.SRV{Hdr: s.header(q.Name, dns.TypeSRV), Weight: 1, Port: p.Number, Target: target})
		}
		r.Extra = addresses(found.Host, target, dns.TypeANY, s.rotation.Add(1), s.seconds())
	}
	r.setNegativeTTL()
	return true
}

// answerPTR answers for addresses that the mesh allocated. Nobody else knows these, so nobody else
// is asked.
func (s *Server) answerPTR(r *reply, q dns.Question, x *names.Index) bool {
	ip, ok := names.Address(q.Name)
	if !ok || !names.Allocated(ip) {
		return false
	}
	s.setMesh(r, "it is from the range of addresses that the mesh allocates")
	if name, ok := x.Reverse(ip); ok {
		r.Answer = []dns.RR{&dns.PTR{Hdr: s.header(q.Name, dns.TypePTR), Ptr: dns.Fqdn(name)}}
		return true
	}
	r.Rcode = dns.RcodeNameError
	r.setNegativeTTL()
	return true
}

// answerFromUpstream asks other resolvers.
func (s *Server) answerFromUpstream(ctx context.Context, r *reply, m *dns.Msg, q dns.Question) {
	answer, err := s.forward.Ask(ctx, question(m))
	if err != nil {
		r.origin, r.Rcode, r.why = failed, dns.RcodeServerFailure, err.Error()
		r.warning = &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeNoReachableAuthority, ExtraText: err.Error()}
		return
	}
	r.origin, r.why = origin(answer.Source), "other resolvers were asked: "+answer.Upstream.String()
	if answer.Source == forward.Stale {
		r.warning = &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeStaleAnswer, ExtraText: "other resolvers do not answer"}
	}
	s.copyAnswer(r, answer.Msg, q)
	r.AuthenticatedData = answer.AuthenticatedData && (m.AuthenticatedData || dnssec(m))
	r.CheckingDisabled = m.CheckingDisabled
}

// copyAnswer copies an upstream's answer, restores the client's spelling of the name, and bounds
// negative TTLs.
func (s *Server) copyAnswer(r *reply, from *dns.Msg, q dns.Question) {
	r.Rcode, r.Answer, r.Ns, r.Extra = from.Rcode, from.Answer, from.Ns, from.Extra
	r.Truncated = from.Truncated
	for _, section := range [][]dns.RR{r.Answer, r.Ns, r.Extra} {
		for _, rr := range section {
			if strings.EqualFold(rr.Header().Name, q.Name) {
				rr.Header().Name = q.Name
			}
		}
	}
	maxTTL := uint32(negativeTTL)
	if !s.current.Load().known {
		maxTTL = unknownTTL
	}
	for _, rr := range r.Ns {
		if soa, ok := rr.(*dns.SOA); ok && (r.Rcode == dns.RcodeNameError || len(r.Answer) == 0) {
			soa.Hdr.Ttl, soa.Minttl = min(soa.Hdr.Ttl, maxTTL), min(soa.Minttl, maxTTL)
		}
	}
}

// correctNXDOMAIN makes a name of the mesh exist, with no records of this type, where upstreams do
// not know it.
func (s *Server) correctNXDOMAIN(r *reply, q dns.Question) {
	if r.Rcode != dns.RcodeNameError {
		return
	}
	if found, mesh := s.current.Load().names.Find(q.Name); mesh && found.Target == "" {
		r.Rcode, r.Ns, r.Authoritative = dns.RcodeSuccess, nil, true
		r.setNegativeTTL()
	}
}

func question(m *dns.Msg) forward.Question {
	q := m.Question[0]
	return forward.Question{Name: strings.ToLower(q.Name), Type: q.Qtype, DNSSEC: dnssec(m), NoCheck: m.CheckingDisabled}
}

func dnssec(m *dns.Msg) bool {
	o := m.IsEdns0()
	return o != nil && o.Do()
}
