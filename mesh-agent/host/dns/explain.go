package dns

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// explain answers a query of class CHAOS, which nobody sends by accident, with text: what the
// answer for the name would be, and why. So dig is all that a person needs: dig CH TXT
// api.example.com.
func (s *Server) explain(ctx context.Context, r *reply, q dns.Question) {
	r.origin, r.Authoritative = fromMachine, true
	say := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		r.Answer = append(r.Answer, &dns.TXT{
			Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeTXT, Class: dns.ClassCHAOS},
			Txt: chunks(text),
		})
	}
	now := s.current.Load()
	for _, t := range []uint16{dns.TypeA, dns.TypeAAAA} {
		asked := new(dns.Msg).SetQuestion(q.Name, t)
		known, remembered := s.forward.Known(question(asked))
		answer := s.respond(ctx, asked, false)
		say("%s %s: %s", q.Name, dns.TypeToString[t], summary(answer))
		say("from %s: %s", answer.origin, answer.why)
		if remembered && answer.origin != fromMesh {
			say("remembered for %s, from %s", known.Age.Round(time.Second), known.Upstream)
		}
	}
	if found, ok := now.names.Find(q.Name); ok {
		for _, p := range found.Ports {
			say("port %d (%s)", p.Number, p.Name)
		}
	}
	if !now.known {
		say("discovery has not said yet what names the mesh has")
	} else {
		say("the mesh has %d names", now.names.Len())
	}
	say("other resolvers: %v, search domains: %v", s.forward.Upstreams(), now.machine.search)
}

func summary(r reply) string {
	if r.Rcode != dns.RcodeSuccess {
		return dns.RcodeToString[r.Rcode]
	}
	if len(r.Answer) == 0 {
		return "there is none"
	}
	values := make([]string, len(r.Answer))
	for i, rr := range r.Answer {
		values[i] = value(rr)
	}
	return strings.Join(values, " ")
}

func value(rr dns.RR) string {
	switch rr := rr.(type) {
	case *dns.A:
		return rr.A.String()
	case *dns.AAAA:
		return rr.AAAA.String()
	case *dns.CNAME:
		return "(as " + rr.Target + ")"
	default:
		return dns.TypeToString[rr.Header().Rrtype]
	}
}

// chunks splits a text to fit into TXT records.
func chunks(text string) (out []string) {
	for len(text) > 255 {
		out, text = append(out, text[:255]), text[255:]
	}
	return append(out, text)
}
