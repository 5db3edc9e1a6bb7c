package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/miekg/dns"
)

// Explain asks a resolver on this machine what it would answer for a name, and why.
func Explain(ctx context.Context, at, name string) ([]string, error) {
	if _, ok := dns.IsDomainName(name); !ok {
		return nil, fmt.Errorf("%q is no name of DNS", name)
	}
	m := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeTXT)
	m.Question[0].Qclass = dns.ClassCHAOS
	client := dns.Client{Net: "tcp", Timeout: 12 * time.Second} // it may ask upstreams twice
	answer, _, err := client.ExchangeContext(ctx, m, at)
	var op *net.OpError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("no resolver is at %s: does mesh-agent run with --dns? Where it listens is said with --dns-listen", at)
	case errors.As(err, &op):
		return nil, fmt.Errorf("the resolver at %s does not answer: %w", at, err)
	case err != nil:
		return nil, err
	}
	var out []string
	for _, rr := range answer.Answer {
		if txt, ok := rr.(*dns.TXT); ok {
			out = append(out, strings.Join(txt.Txt, ""))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("what listens at %s is not mesh-agent's resolver: it answers %s", at, dns.RcodeToString[answer.Rcode])
	}
	return out, nil
}
