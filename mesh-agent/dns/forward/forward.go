// Package forward asks other resolvers, for what the mesh does not know, and remembers what they said.
//
// Of several upstreams the first that is well is asked; the next joins in when it takes long or fails, and the first answer counts. Who did not
// answer is asked again after a while, beside one that is well, so that nobody waits for it. While none answers, what was
// known lately is told on (RFC 8767). Equal questions at the same time are asked once.
package forward

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
)

const (
	// within is how long a question may take altogether: resolvers on machines give up after five seconds.
	within = 4500 * time.Millisecond
	// patience is how long one upstream has before the next is asked, too.
	patience = 700 * time.Millisecond
	// staleAfter is how long somebody waits for what is known from before (RFC 8767, 1.8 s).
	staleAfter = 1800 * time.Millisecond
	// parallel bounds the questions that wait for upstreams.
	parallel = 256
)

var (
	// ErrNone says that nobody can be asked.
	ErrNone = errors.New("there is no other resolver to ask: name one with --dns-upstream, or in the machine's resolv.conf")
	// ErrBusy says that too many questions wait for answers.
	ErrBusy = errors.New("too many questions wait for other resolvers")
)

// Question is one for an upstream.
type Question struct {
	Name string // in lower case, with its last dot
	Type uint16
	// DNSSEC asks for signatures, and NoCheck for what is signed wrongly.
	DNSSEC, NoCheck bool
}

// Answer is what was found out.
type Answer struct {
	*dns.Msg
	Source Source
	// Upstream is who said it, now or when it was remembered.
	Upstream netip.AddrPort
	// Age is how long ago that was.
	Age time.Duration
}

// Source is where an answer comes from.
type Source string

// The sources of answers.
const (
	Upstream Source = "upstream"
	Cache    Source = "cache"
	Stale    Source = "stale"
)

// Forwarder asks upstreams.
type Forwarder struct {
	log      *slog.Logger
	metrics  *metrics
	cache    *cache
	flights  singleflight.Group
	places   chan struct{}
	running  sync.WaitGroup
	expected sync.Map // *upstream by the name that it was asked for to see whether it asks us

	mu        sync.Mutex
	upstreams []*upstream
}

// Options say how to forward.
type Options struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Entries and Bytes bound what is remembered.
	Entries, Bytes int
}

// New makes a forwarder without upstreams.
func New(o Options) *Forwarder {
	f := &Forwarder{log: o.Log, cache: newCache(o.Entries, o.Bytes), places: make(chan struct{}, parallel)}
	f.metrics = newMetrics(o.Metrics, f)
	return f
}

// Use takes over upstreams, in the order in which they are to be asked. What is known of the health of those that stay is kept.
func (f *Forwarder) Use(addresses []netip.AddrPort) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := map[netip.AddrPort]*upstream{}
	for _, u := range f.upstreams {
		before[u.address] = u
	}
	f.upstreams = nil
	for _, a := range addresses {
		u := before[a]
		if u == nil {
			u = &upstream{address: a}
		}
		delete(before, a)
		f.upstreams = append(f.upstreams, u)
	}
	for a := range before {
		f.metrics.forget(a)
	}
}

// Upstreams are who is asked.
func (f *Forwarder) Upstreams() []netip.AddrPort {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]netip.AddrPort, len(f.upstreams))
	for i, u := range f.upstreams {
		out[i] = u.address
	}
	return out
}

// Wait returns when no question is under way.
func (f *Forwarder) Wait() { f.running.Wait() }

// Known is what is remembered of a question, if there is anything; it asks nobody.
func (f *Forwarder) Known(q Question) (Answer, bool) {
	now := time.Now()
	e := f.cache.get(q, now)
	if e == nil {
		return Answer{}, false
	}
	source := Cache
	if !e.fresh(now) {
		source = Stale
	}
	answer, err := e.answer(source, now)
	return answer, err == nil
}

// Ask answers a question from memory, or asks.
func (f *Forwarder) Ask(ctx context.Context, q Question) (Answer, error) {
	now := time.Now()
	known := f.cache.get(q, now)
	if known != nil && known.fresh(now) {
		return known.answer(Cache, now)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	news, err := f.await(ctx, q, known)
	switch {
	case err == nil && (known == nil || !news.failure):
		return news.answer(Upstream, time.Now())
	case known == nil:
		return Answer{}, err
	default:
		return known.answer(Stale, time.Now())
	}
}

// errSlow says that it takes too long for who has an answer from before.
var errSlow = errors.New("other resolvers take long")

// await waits for who asks already, or asks.
func (f *Forwarder) await(ctx context.Context, q Question, known *entry) (*entry, error) {
	flight := f.flights.DoChan(q.key(), func() (any, error) { return f.fly(q) })
	stale := f.staleTimer(known)
	defer stale.Stop()
	select {
	case landed := <-flight:
		if landed.Err != nil {
			return nil, landed.Err
		}
		return landed.Val.(*entry), nil
	case <-stale.C: // the flight goes on, for who asks next
		return nil, errSlow
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// staleTimer ends when what is known from before has to do: at once while nobody can be reached.
func (f *Forwarder) staleTimer(known *entry) *time.Timer {
	switch {
	case known == nil:
		return time.NewTimer(2 * within)
	case f.anyWell():
		return time.NewTimer(staleAfter)
	default:
		return time.NewTimer(0)
	}
}

// fly asks upstreams on behalf of everybody who waits, whoever of them gives up.
func (f *Forwarder) fly(q Question) (*entry, error) {
	f.running.Add(1)
	defer f.running.Done()
	select {
	case f.places <- struct{}{}:
		defer func() { <-f.places }()
	default:
		return nil, ErrBusy
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	message, from, err := f.exchange(ctx, q)
	if err != nil {
		return nil, err
	}
	e, err := newEntry(message, from, time.Now())
	if err != nil {
		return nil, err
	}
	f.cache.put(q, e)
	return e, nil
}

func (q Question) key() string {
	key := []byte{byte(q.Type >> 8), byte(q.Type), 0}
	if q.DNSSEC {
		key[2] |= 1
	}
	if q.NoCheck {
		key[2] |= 2
	}
	return string(key) + q.Name
}

// message is the question as it is sent.
func (q Question) message() *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(q.Name, q.Type)
	m.CheckingDisabled = q.NoCheck
	m.SetEdns0(UDPSize, q.DNSSEC)
	return m
}

// answers reports whether a message is one to the question: a forged one is more likely to be wrong in this.
func (q Question) answers(m *dns.Msg) bool {
	return m.Response && len(m.Question) == 1 && m.Question[0].Qtype == q.Type && strings.EqualFold(m.Question[0].Name, q.Name)
}
