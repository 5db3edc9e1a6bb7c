package forward

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	longest         = 24 * time.Hour
	longestNegative = 5 * time.Minute // RFC 2308 allows more; a name that somebody just made should be found
	failure         = time.Second     // for what upstreams could not find out (RFC 9520)
	keepStale       = 24 * time.Hour  // RFC 8767 suggests one to three days
	staleTTL        = 30              // seconds, likewise
)

// entry is an answer as it is remembered: packed, for that is a fraction of the memory.
type entry struct {
	wire    []byte
	from    netip.AddrPort
	stored  time.Time
	expires time.Time
	failure bool
}

func newEntry(m *dns.Msg, from netip.AddrPort, now time.Time) (*entry, error) {
	m = m.Copy()
	m.Extra = withoutOPT(m.Extra)
	m.Compress = true
	wire, err := m.Pack()
	if err != nil {
		return nil, err
	}
	return &entry{wire: wire, from: from, stored: now, expires: now.Add(lifetime(m)), failure: !decided(m)}, nil
}

func withoutOPT(extra []dns.RR) (out []dns.RR) {
	for _, rr := range extra {
		if rr.Header().Rrtype != dns.TypeOPT {
			out = append(out, rr)
		}
	}
	return out
}

// lifetime is how long an answer counts: as long as its shortest record; that nothing is there, as long as the zone says.
func lifetime(m *dns.Msg) time.Duration {
	switch {
	case m.Truncated:
		return 0
	case !decided(m):
		return failure
	case m.Rcode == dns.RcodeNameError || len(m.Answer) == 0:
		for _, rr := range m.Ns {
			if soa, ok := rr.(*dns.SOA); ok {
				return min(time.Duration(min(soa.Hdr.Ttl, soa.Minttl))*time.Second, longestNegative)
			}
		}
		return 0 // RFC 2308, 5: without a SOA it is not to be remembered
	}
	shortest := longest
	for _, rr := range m.Answer {
		shortest = min(shortest, time.Duration(rr.Header().Ttl)*time.Second)
	}
	return shortest
}

func (e *entry) fresh(now time.Time) bool { return now.Before(e.expires) }

// answer is the entry as it is told at a time.
func (e *entry) answer(source Source, now time.Time) (Answer, error) {
	m := new(dns.Msg)
	if err := m.Unpack(e.wire); err != nil {
		return Answer{}, err
	}
	a := Answer{Msg: m, Upstream: e.from, Age: now.Sub(e.stored), Source: source}
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			rr.Header().Ttl = a.ttl(rr.Header().Ttl)
		}
	}
	return a, nil
}

// ttl is what is left of that of a record.
func (a Answer) ttl(was uint32) uint32 {
	if a.Source == Stale {
		return staleTTL
	}
	return was - min(was, uint32(a.Age/time.Second))
}

// cache remembers answers, those that were used last, up to a number and a size.
type cache struct {
	entries, bytes int

	mu     sync.Mutex
	used   *list.List // of *kept, the latest first
	byKey  map[string]*list.Element
	weight int
}

type kept struct {
	key string
	*entry
}

// overhead is about what an entry needs beside its key and its message.
const overhead = 250

func (k *kept) weight() int { return len(k.key) + len(k.wire) + overhead }

func newCache(entries, bytes int) *cache {
	return &cache{entries: entries, bytes: bytes, used: list.New(), byKey: map[string]*list.Element{}}
}

// get is what is remembered, though it may be stale.
func (c *cache) get(q Question, now time.Time) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.byKey[q.key()]
	if at == nil {
		return nil
	}
	k := at.Value.(*kept)
	if now.After(k.expires.Add(keepStale)) || k.failure && !k.fresh(now) {
		c.remove(at)
		return nil
	}
	c.used.MoveToFront(at)
	return k.entry
}

// put remembers an answer. A failure does not take the place of what was known.
func (c *cache) put(q Question, e *entry) {
	if !e.expires.After(e.stored) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.byKey[q.key()]; at != nil {
		if e.failure && !at.Value.(*kept).failure {
			return
		}
		c.remove(at)
	}
	k := &kept{q.key(), e}
	c.byKey[k.key] = c.used.PushFront(k)
	c.weight += k.weight()
	for c.used.Len() > c.entries || c.weight > c.bytes {
		c.remove(c.used.Back())
	}
}

func (c *cache) remove(at *list.Element) {
	k := c.used.Remove(at).(*kept)
	delete(c.byKey, k.key)
	c.weight -= k.weight()
}

func (c *cache) size() (entries, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used.Len(), c.weight
}
