package dns

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/pgmesh/pgmesh/mesh-agent/dns/forward"
	"github.com/pgmesh/pgmesh/mesh-agent/dns/names"
)

// kind is where an answer comes from, for metrics and for people.
type kind string

const (
	fromMesh     kind = "mesh"
	fromMachine  kind = "machine" // what every machine knows of itself: localhost
	fromUpstream kind = "upstream"
	fromCache    kind = "cache"
	fromStale    kind = "stale"
	refused      kind = "refused"
	failed       kind = "failed"
)

const (
	// negativeTTL bounds for how long clients may remember that something does not exist: it may join the mesh.
	negativeTTL = 30
	// meshNegativeTTL is that for names of the mesh.
	meshNegativeTTL = 5
	// unknownTTL is that as long as discovery has not said what names there are.
	unknownTTL = 1
)

// reply is an answer that is not complete yet: size and EDNS are not for who knows names.
type reply struct {
	*dns.Msg

	kind    kind
	why     string
	warning *dns.EDNS0_EDE // what there is to say beside the answer (RFC 8914)
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
		r.kind, r.Rcode, r.why = refused, dns.RcodeRefused, "names of the Internet are answered for, one at a time"
		return r
	case s.forward.Looped(q.Name):
		r.kind, r.Rcode = refused, dns.RcodeNameError
		return r
	}
	if local(&r, q) || !proxy && s.fromMesh(&r, q) {
		return r
	}
	s.fromOthers(ctx, &r, m, q)
	if !proxy {
		s.exists(&r, q)
	}
	return r
}

// local answers for what no resolver may ask others for (RFC 6761).
func local(r *reply, q dns.Question) bool {
	name := strings.ToLower(q.Name)
	if name != "localhost." && !strings.HasSuffix(name, ".localhost.") {
		return false
	}
	r.kind, r.Authoritative, r.why = fromMachine, true, "it is this machine (RFC 6761)"
	host := names.Host{IPv4: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, IPv6: []netip.Addr{netip.IPv6Loopback()}}
	r.Answer = addresses(&host, q.Name, q.Qtype, 0, negativeTTL)
	r.orNothing()
	return true
}

// fromMesh answers for a name of the mesh. It leaves types to others that the mesh has nothing to say about, and that lead to no address.
func (s *Server) fromMesh(r *reply, q dns.Question) bool {
	x := s.current.Load().names
	if q.Qtype == dns.TypePTR {
		return s.reverse(r, q, x)
	}
	if port, transport, host, ok := names.Service(q.Name); ok {
		return s.service(r, q, x, port, transport, host)
	}
	found, ok := x.Find(q.Name)
	if !ok {
		return false
	}
	if elsewhere(q.Qtype) {
		return false
	}
	s.isMesh(r, found.Why)
	owner := q.Name
	if found.Target != "" {
		owner = dns.Fqdn(found.Target)
		r.Answer = append(r.Answer, &dns.CNAME{Hdr: s.header(q.Name, dns.TypeCNAME), Target: owner})
	}
	if q.Qtype != dns.TypeCNAME {
		r.Answer = append(r.Answer, addresses(found.Host, owner, q.Qtype, s.turn.Add(1), s.seconds())...)
	}
	r.orNothing()
	return true
}

// elsewhere are types that the mesh knows nothing about, and that nobody connects by: mail, words, signatures of certificates. A host of the mesh
// may be one of the Internet, too.
func elsewhere(t uint16) bool {
	switch t {
	case dns.TypeA, dns.TypeAAAA, dns.TypeANY, dns.TypeCNAME, dns.TypeSRV, dns.TypeHTTPS, dns.TypeSVCB, dns.TypeNS, dns.TypeSOA, dns.TypeDS, dns.TypeDNSKEY:
		return false
	default:
		return true
	}
}

func (s *Server) isMesh(r *reply, why string) {
	r.kind, r.why, r.Authoritative = fromMesh, why, true
}

func (s *Server) seconds() uint32 { return uint32(s.TTL / time.Second) }

func (s *Server) header(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: s.seconds()}
}

// addresses are the records of a host, in an order that begins with another each turn.
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

// orNothing says of an answer that is empty for how long that may be remembered.
func (r *reply) orNothing() {
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

// service answers for _NAME._tcp.HOST. What the mesh does not know of a host is left to others: it may be no service of the mesh.
func (s *Server) service(r *reply, q dns.Question, x *names.Index, port, transport, host string) bool {
	found, ok := x.Find(host)
	if !ok {
		return false
	}
	served := found.Served(port, transport)
	if len(served) == 0 {
		return false
	}
	s.isMesh(r, found.Why+", with that port")
	target := dns.Fqdn(host)
	if found.Target != "" {
		target = dns.Fqdn(found.Target)
	}
	if q.Qtype == dns.TypeSRV || q.Qtype == dns.TypeANY {
		for _, p := range served {
			r.Answer = append(r.Answer, &dns.SRV{Hdr: s.header(q.Name, dns.TypeSRV), Weight: 1, Port: p.Number, Target: target})
		}
		r.Extra = addresses(found.Host, target, dns.TypeANY, s.turn.Add(1), s.seconds())
	}
	r.orNothing()
	return true
}

// reverse answers whose an address is that the mesh allocated. Nobody else knows, so nobody else is asked.
func (s *Server) reverse(r *reply, q dns.Question, x *names.Index) bool {
	ip, ok := names.Address(q.Name)
	if !ok || !names.Allocated(ip) {
		return false
	}
	s.isMesh(r, "it is from the range of addresses that the mesh allocates")
	if name, ok := x.Reverse(ip); ok {
		r.Answer = []dns.RR{&dns.PTR{Hdr: s.header(q.Name, dns.TypePTR), Ptr: dns.Fqdn(name)}}
		return true
	}
	r.Rcode = dns.RcodeNameError
	r.orNothing()
	return true
}

// fromOthers asks other resolvers.
func (s *Server) fromOthers(ctx context.Context, r *reply, m *dns.Msg, q dns.Question) {
	answer, err := s.forward.Ask(ctx, question(m))
	if err != nil {
		r.kind, r.Rcode, r.why = failed, dns.RcodeServerFailure, err.Error()
		r.warning = &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeNoReachableAuthority, ExtraText: err.Error()}
		return
	}
	r.kind, r.why = kind(answer.Source), "other resolvers were asked: "+answer.Upstream.String()
	if answer.Source == forward.Stale {
		r.warning = &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeStaleAnswer, ExtraText: "other resolvers do not answer"}
	}
	s.adopt(r, answer.Msg, q)
	r.AuthenticatedData = answer.AuthenticatedData && (m.AuthenticatedData || dnssec(m))
	r.CheckingDisabled = m.CheckingDisabled
}

// adopt takes over what somebody else said: in the letters that the client chose, and with an end for what does not exist.
func (s *Server) adopt(r *reply, from *dns.Msg, q dns.Question) {
	r.Rcode, r.Answer, r.Ns, r.Extra = from.Rcode, from.Answer, from.Ns, from.Extra
	r.Truncated = from.Truncated
	for _, section := range [][]dns.RR{r.Answer, r.Ns, r.Extra} {
		for _, rr := range section {
			if strings.EqualFold(rr.Header().Name, q.Name) {
				rr.Header().Name = q.Name
			}
		}
	}
	most := uint32(negativeTTL)
	if !s.current.Load().known {
		most = unknownTTL
	}
	for _, rr := range r.Ns {
		if soa, ok := rr.(*dns.SOA); ok && (r.Rcode == dns.RcodeNameError || len(r.Answer) == 0) {
			soa.Hdr.Ttl, soa.Minttl = min(soa.Hdr.Ttl, most), min(soa.Minttl, most)
		}
	}
}

// exists has a name of the mesh exist, though others know nothing of it.
func (s *Server) exists(r *reply, q dns.Question) {
	if r.Rcode != dns.RcodeNameError {
		return
	}
	if found, mesh := s.current.Load().names.Find(q.Name); mesh && found.Target == "" {
		r.Rcode, r.Ns, r.Authoritative = dns.RcodeSuccess, nil, true
		r.orNothing()
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
