package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/pgmesh/pgmesh/internal/panics"
	"github.com/pgmesh/pgmesh/mesh-agent/ownmark"
)

// UDPSize is what is sent and received in one datagram; more would be fragmented somewhere (DNS flag day 2020).
const UDPSize = 1232

const (
	// attempt is how long one upstream may take for an answer.
	attempt    = 2500 * time.Millisecond
	firstRest  = time.Second
	longestOff = 30 * time.Second
)

// upstream is a resolver that is asked, and what is known of its health. Forwarder's lock guards it.
type upstream struct {
	address  netip.AddrPort
	failures int       // since it last answered
	until    time.Time // when it is tried again
	loops    bool      // it asks us
}

func (u *upstream) well() bool { return u.failures == 0 && !u.loops }

// choose puts those that are well first, and tells how many are to be asked at once: one, and who is tried again beside it.
func (f *Forwarder) choose(now time.Time) (order []*upstream, atOnce int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var again, ill []*upstream
	for _, u := range f.upstreams {
		switch {
		case u.loops:
		case u.well():
			order = append(order, u)
		case now.After(u.until) && len(again) == 0:
			u.until = now.Add(attempt) // one question at a time tries it
			again = append(again, u)
		default:
			ill = append(ill, u)
		}
	}
	if len(order) == 0 {
		order = slices.Concat(again, ill)
		return order, min(len(order), 2) // all are away: whoever comes back first is as good as any
	}
	return slices.Concat(order[:1], again, order[1:], ill), 1 + len(again)
}

func (f *Forwarder) anyWell() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, u := range f.upstreams {
		if u.well() {
			return true
		}
	}
	return false
}

func (f *Forwarder) answered(u *upstream) {
	f.mu.Lock()
	was := u.failures
	u.failures, u.until = 0, time.Time{}
	f.mu.Unlock()
	if was > 0 {
		f.log.Info("a resolver answers again", "upstream", u.address)
	}
}

func (f *Forwarder) failed(u *upstream, err error) {
	f.metrics.failed(u.address, err)
	f.mu.Lock()
	u.failures++
	u.until = time.Now().Add(min(firstRest<<min(u.failures-1, 10), longestOff))
	first := u.failures == 1
	f.mu.Unlock()
	if first {
		f.log.Warn("a resolver does not answer; others are asked before it", "upstream", u.address, "error", err)
	}
}

// landed is how one attempt ended.
type landed struct {
	message *dns.Msg
	from    *upstream
	err     error
}

// exchange asks one upstream after the other, until one has an answer. If all refuse, it is the last refusal.
func (f *Forwarder) exchange(ctx context.Context, q Question) (*dns.Msg, netip.AddrPort, error) {
	order, atOnce := f.choose(time.Now())
	if len(order) == 0 {
		return nil, netip.AddrPort{}, ErrNone
	}
	results := make(chan landed, len(order))
	under, started := 0, 0
	start := func() {
		if started < len(order) {
			u := order[started]
			under, started = under+1, started+1
			f.running.Go(func() {
				m, err := panics.Receive(func() (*dns.Msg, error) { return f.try(ctx, u, q) })
				results <- landed{m, u, err}
			})
		}
	}
	for range atOnce {
		start()
	}
	impatient := time.NewTicker(patience)
	defer impatient.Stop()
	var worst landed
	for under > 0 {
		select {
		case r := <-results:
			under--
			if r.err == nil && decided(r.message) {
				return r.message, r.from.address, nil
			}
			if worst.message == nil {
				worst = r
			}
			start()
		case <-impatient.C:
			start()
		}
	}
	if worst.message != nil {
		return worst.message, worst.from.address, nil
	}
	return nil, netip.AddrPort{}, fmt.Errorf("no resolver answers (%d asked): %w", started, worst.err)
}

// decided reports whether there is no point in asking another.
func decided(m *dns.Msg) bool {
	return m.Rcode == dns.RcodeSuccess || m.Rcode == dns.RcodeNameError
}

// try asks one upstream, by TCP what is too long for UDP.
func (f *Forwarder) try(ctx context.Context, u *upstream, q Question) (*dns.Msg, error) {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	m, err := send(ctx, u.address, q, q.message())
	if err == nil && m.Rcode == dns.RcodeFormatError { // it may not know EDNS
		plain := q.message()
		plain.Extra = nil
		m, err = send(ctx, u.address, q, plain)
	}
	if err != nil {
		f.failed(u, err)
		return nil, err
	}
	f.metrics.answered(u.address, time.Since(begun))
	f.answered(u)
	return m, nil
}

func send(ctx context.Context, to netip.AddrPort, q Question, m *dns.Msg) (*dns.Msg, error) {
	answer, err := exchangeBy(ctx, "udp", to, q, m)
	if err == nil && answer.Truncated {
		if whole, err := exchangeBy(ctx, "tcp", to, q, m); err == nil {
			return whole, nil
		}
	}
	return answer, err
}

var errForged = errors.New("it answered another question")

func exchangeBy(ctx context.Context, network string, to netip.AddrPort, q Question, m *dns.Msg) (*dns.Msg, error) {
	client := dns.Client{
		Net: network, UDPSize: UDPSize, Timeout: attempt,
		Dialer: &net.Dialer{Timeout: attempt, Control: ownmark.Control}, // or redirection would send the question back here
	}
	answer, _, err := client.ExchangeContext(ctx, m, to.String())
	switch {
	case err != nil:
		return nil, err
	case answer.Rcode != dns.RcodeFormatError && !q.answers(answer): // who cannot read a question cannot repeat it
		return nil, errForged
	}
	return answer, nil
}

// reason is the word that metrics have for an error.
func reason(err error) string {
	var op *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.As(err, &op):
		return "network"
	default:
		return "malformed"
	}
}
