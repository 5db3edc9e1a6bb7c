// Package forward asks upstream resolvers and caches their answers.
//
// The first healthy upstream is asked. When it is slow or fails the next joins in, and the first
// answer counts. A failed upstream is retried beside a healthy one, so that nobody waits for it.
// While no upstream answers, stale answers are served (RFC 8767). Equal concurrent questions are
// asked once.
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
	// totalTimeout bounds a question: machines' resolver libraries give up after five seconds.
	totalTimeout = 4500 * time.Millisecond
	// nextAttemptDelay is how long one upstream has before the next is asked too.
	nextAttemptDelay = 700 * time.Millisecond
	// staleAfter is how long a client waits if a stale answer is available (RFC 8767, 1.8 s).
	staleAfter = 1800 * time.Millisecond
	// maxQueries bounds the questions that wait for upstreams.
	maxQueries = 256
)

var (
	// ErrNone means that there is no upstream.
	ErrNone = errors.New("there is no other resolver to ask: name one with --dns-upstream, or in the machine's resolv.conf")
	// ErrBusy means that too many questions wait for upstreams.
	ErrBusy = errors.New("too many questions wait for other resolvers")
)

// Question is a question for upstreams.
type Question struct {
	Name string // in lower case, with the final dot
	Type uint16
	// DNSSEC asks for signatures, and NoCheck for answers with wrong ones too.
	DNSSEC, NoCheck bool
}

// Answer is an answer and where it came from.
type Answer struct {
	*dns.Msg
	Source Source
	// Upstream is the resolver that gave it.
	Upstream netip.AddrPort
	// Age is how long ago that was.
	Age time.Duration
}

// Source says how an answer was obtained.
type Source string

// The sources of answers.
const (
	Upstream Source = "upstream"
	Cache    Source = "cache"
	Stale    Source = "stale"
)

// Forwarder asks upstreams.
type Forwarder struct {
	log        *slog.Logger
	metrics    *metrics
	cache      *cache
	flights    singleflight.Group
	slots      chan struct{}
	running    sync.WaitGroup
	loopProbes sync.Map // an *upstream for each name of a loop check

	mu        sync.Mutex
	upstreams []*upstream
}

// Options configure a Forwarder.
type Options struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Entries and Bytes bound the cache.
	Entries, Bytes int
}

// New returns a Forwarder without upstreams.
func New(o Options) *Forwarder {
	f := &Forwarder{log: o.Log, cache: newCache(o.Entries, o.Bytes), slots: make(chan struct{}, maxQueries)}
	f.metrics = newMetrics(o.Metrics, f)
	return f
}

// Use sets the upstreams, in order of preference. Those that stay keep their health.
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

// Upstreams returns the upstreams.
func (f *Forwarder) Upstreams() []netip.AddrPort {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]netip.AddrPort, len(f.upstreams))
	for i, u := range f.upstreams {
		out[i] = u.address
	}
	return out
}

// Wait waits until no question is under way.
func (f *Forwarder) Wait() { f.running.Wait() }

// Known returns the cached answer, if any, and asks nobody.
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

// Ask answers from the cache, or asks upstreams.
func (f *Forwarder) Ask(ctx context.Context, q Question) (Answer, error) {
	now := time.Now()
	known := f.cache.get(q, now)
	if known != nil && known.fresh(now) {
		return known.answer(Cache, now)
	}
	ctx, cancel := context.WithTimeout(ctx, totalTimeout)
	defer cancel()
	fresh, err := f.wait(ctx, q, known)
	switch {
	case err == nil && (known == nil || !fresh.failure):
		return fresh.answer(Upstream, time.Now())
	case known == nil:
		return Answer{}, err
	default:
		return known.answer(Stale, time.Now())
	}
}

// errSlow ends the wait of a client that can have a stale answer.
var errSlow = errors.New("other resolvers take long")

// wait waits for a query under way, or starts one.
func (f *Forwarder) wait(ctx context.Context, q Question, known *entry) (*entry, error) {
	flight := f.flights.DoChan(q.key(), func() (any, error) { return f.query(q) })
	stale := f.staleTimer(known)
	defer stale.Stop()
	select {
	case landed := <-flight:
		if landed.Err != nil {
			return nil, landed.Err
		}
		return landed.Val.(*entry), nil
	case <-stale.C: // the query continues, for whoever asks next
		return nil, errSlow
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// staleTimer fires when a stale answer is to be used: at once while no upstream is healthy.
func (f *Forwarder) staleTimer(known *entry) *time.Timer {
	switch {
	case known == nil:
		return time.NewTimer(2 * totalTimeout) // never: the question ends before
	case f.anyHealthy():
		return time.NewTimer(staleAfter)
	default:
		return time.NewTimer(0)
	}
}

// query asks upstreams on behalf of all who wait; it continues when some of them give up.
func (f *Forwarder) query(q Question) (*entry, error) {
	f.running.Add(1)
	defer f.running.Done()
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	default:
		return nil, ErrBusy
	}
	ctx, cancel := context.WithTimeout(context.Background(), totalTimeout)
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

// message is the query to send.
func (q Question) message() *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(q.Name, q.Type)
	m.CheckingDisabled = q.NoCheck
	m.SetEdns0(UDPSize, q.DNSSEC)
	return m
}

// answers reports whether a message answers the question. A forged one may fail here.
func (q Question) answers(m *dns.Msg) bool {
	return m.Response && len(m.Question) == 1 && m.Question[0].Qtype == q.Type && strings.EqualFold(m.Question[0].Name, q.Name)
}
