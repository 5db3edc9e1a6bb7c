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

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/mesh-agent/host/ownmark"
)

// UDPSize bounds datagrams in both directions; larger ones get fragmented on some paths (DNS flag
// day 2020).
const UDPSize = 1232

// attemptTimeout bounds the wait for one upstream.
const attemptTimeout = 2500 * time.Millisecond

// whileDown are the pauses between questions to an upstream that does not answer.
var whileDown = retry.Pauses{First: time.Second, Longest: 30 * time.Second, Growth: 2, Jitter: 0.1}

// upstream is a resolver and its health. Forwarder.mu guards it.
type upstream struct {
	address netip.AddrPort
	down    *retry.Backoff // since its last answer; nil while it answers
	retryAt time.Time      // when to retry it
	looping bool           // it forwards to us
}

func (u *upstream) healthy() bool { return u.down == nil && !u.looping }

// order sorts upstreams by health, and returns how many to ask at once: one, plus one that is due
// for a retry.
func (f *Forwarder) order(now time.Time) (order []*upstream, atOnce int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var due, unhealthy []*upstream
	for _, u := range f.upstreams {
		switch {
		case u.looping:
		case u.healthy():
			order = append(order, u)
		case now.After(u.retryAt) && len(due) == 0:
			u.retryAt = now.Add(attemptTimeout) // only one query at a time retries it
			due = append(due, u)
		default:
			unhealthy = append(unhealthy, u)
		}
	}
	if len(order) == 0 {
		order = slices.Concat(due, unhealthy)
		return order, min(len(order), 2) // all are down, so try two at once
	}
	return slices.Concat(order[:1], due, order[1:], unhealthy), 1 + len(due)
}

func (f *Forwarder) anyHealthy() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, u := range f.upstreams {
		if u.healthy() {
			return true
		}
	}
	return false
}

func (f *Forwarder) answered(u *upstream) {
	f.mu.Lock()
	was := u.down
	u.down, u.retryAt = nil, time.Time{}
	f.mu.Unlock()
	if was != nil {
		f.log.Info("a resolver answers again", "upstream", u.address)
	}
}

func (f *Forwarder) failed(u *upstream, err error) {
	f.metrics.failed(u.address, err)
	f.mu.Lock()
	first := u.down == nil
	if first {
		u.down = whileDown.Backoff()
	}
	u.retryAt = time.Now().Add(u.down.Next())
	f.mu.Unlock()
	if first {
		f.log.Warn("a resolver does not answer; others are asked before it", "upstream", u.address, "error", err)
	}
}

// attemptResult is how one attempt ended.
type attemptResult struct {
	message *dns.Msg
	from    *upstream
	err     error
}

// exchange asks one upstream after the other until one has an answer. If all refuse, it returns a
// refusal.
func (f *Forwarder) exchange(ctx context.Context, q Question) (*dns.Msg, netip.AddrPort, error) {
	order, atOnce := f.order(time.Now())
	if len(order) == 0 {
		return nil, netip.AddrPort{}, ErrNone
	}
	results := make(chan attemptResult, len(order))
	pending, started := 0, 0
	start := func() {
		if started < len(order) {
			u := order[started]
			pending, started = pending+1, started+1
			f.running.Go(func() {
				m, err := panics.Receive(func() (*dns.Msg, error) { return f.try(ctx, u, q) })
				results <- attemptResult{m, u, err}
			})
		}
	}
	for range atOnce {
		start()
	}
	next := time.NewTicker(nextAttemptDelay)
	defer next.Stop()
	var failure attemptResult
	for pending > 0 {
		select {
		case r := <-results:
			pending--
			if r.err == nil && conclusive(r.message) {
				return r.message, r.from.address, nil
			}
			if failure.message == nil {
				failure = r
			}
			start()
		case <-next.C:
			start()
		}
	}
	if failure.message != nil {
		return failure.message, failure.from.address, nil
	}
	return nil, netip.AddrPort{}, fmt.Errorf("no resolver answers (%d asked): %w", started, failure.err)
}

// conclusive reports whether asking another upstream is pointless.
func conclusive(m *dns.Msg) bool {
	return m.Rcode == dns.RcodeSuccess || m.Rcode == dns.RcodeNameError
}

// try asks one upstream, by TCP if the answer does not fit into a datagram.
func (f *Forwarder) try(ctx context.Context, u *upstream, q Question) (*dns.Msg, error) {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	m, err := send(ctx, u.address, q, q.message())
	if err == nil && m.Rcode == dns.RcodeFormatError { // it may not support EDNS
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
		Net: network, UDPSize: UDPSize, Timeout: attemptTimeout,
		Dialer: &net.Dialer{Timeout: attemptTimeout, Control: ownmark.Control}, // marked, or redirection would send the query back to us
	}
	answer, _, err := client.ExchangeContext(ctx, m, to.String())
	switch {
	case err != nil:
		return nil, err
	case answer.Rcode != dns.RcodeFormatError && !q.answers(answer): // a server that cannot parse the question cannot repeat it
		return nil, errForged
	}
	return answer, nil
}

// reason is the metric label for an error.
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
