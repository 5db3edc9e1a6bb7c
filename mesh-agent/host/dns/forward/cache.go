package forward

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	maxTTL         = 24 * time.Hour
	maxNegativeTTL = 5 * time.Minute // RFC 2308 allows more; a new name should be found soon
	failureTTL     = time.Second     // for server failures (RFC 9520)
	maxStale       = 24 * time.Hour  // RFC 8767 suggests one to three days
	staleTTL       = 30              // seconds, from RFC 8767
)

// entry is a cached answer, packed to take a fraction of the memory.
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
	return &entry{wire: wire, from: from, stored: now, expires: now.Add(lifetime(m)), failure: !conclusive(m)}, nil
}

func withoutOPT(extra []dns.RR) (out []dns.RR) {
	for _, rr := range extra {
		if rr.Header().Rrtype != dns.TypeOPT {
			out = append(out, rr)
		}
	}
	return out
}

// lifetime returns how long to cache an answer: as long as its shortest record lives, or as the
// zone says for a negative one.
func lifetime(m *dns.Msg) time.Duration {
	switch {
	case m.Truncated:
		return 0
	case !conclusive(m):
		return failureTTL
	case m.Rcode == dns.RcodeNameError || len(m.Answer) == 0:
		for _, rr := range m.Ns {
			if soa, ok := rr.(*dns.SOA); ok {
				return min(time.Duration(min(soa.Hdr.Ttl, soa.Minttl))*time.Second, maxNegativeTTL)
			}
		}
		return 0 // RFC 2308, 5: without a SOA it must not be cached
	}
	shortest := maxTTL
	for _, rr := range m.Answer {
		shortest = min(shortest, time.Duration(rr.Header().Ttl)*time.Second)
	}
	return shortest
}

func (e *entry) fresh(now time.Time) bool { return now.Before(e.expires) }

// answer unpacks the entry, with TTLs as of now.
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

// ttl returns the remaining TTL of a record.
func (a Answer) ttl(was uint32) uint32 {
	if a.Source == Stale {
		return staleTTL
	}
	return was - min(was, uint32(a.Age/time.Second))
}

// cache is an LRU cache, bounded by count and size.
type cache struct {
	entries, bytes int

	mu     sync.Mutex
	lru    *list.List // of *cacheItem, the most recently used first
	byKey  map[string]*list.Element
	weight int
}

type cacheItem struct {
	key string
	*entry
}

// overhead is about what an entry takes beside its key and message.
const overhead = 250

func (k *cacheItem) weight() int { return len(k.key) + len(k.wire) + overhead }

func newCache(entries, bytes int) *cache {
	return &cache{entries: entries, bytes: bytes, lru: list.New(), byKey: map[string]*list.Element{}}
}

// get returns a cached answer, which may be stale.
func (c *cache) get(q Question, now time.Time) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.byKey[q.key()]
	if at == nil {
		return nil
	}
	k := at.Value.(*cacheItem)
	if now.After(k.expires.Add(maxStale)) || k.failure && !k.fresh(now) {
		c.remove(at)
		return nil
	}
	c.lru.MoveToFront(at)
	return k.entry
}

// put caches an answer. A failure does not replace a good answer.
func (c *cache) put(q Question, e *entry) {
	if !e.expires.After(e.stored) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.byKey[q.key()]; at != nil {
		if e.failure && !at.Value.(*cacheItem).failure {
			return
		}
		c.remove(at)
	}
	k := &cacheItem{q.key(), e}
	c.byKey[k.key] = c.lru.PushFront(k)
	c.weight += k.weight()
	for c.lru.Len() > c.entries || c.weight > c.bytes {
		c.remove(c.lru.Back())
	}
}

func (c *cache) remove(at *list.Element) {
	k := c.lru.Remove(at).(*cacheItem)
	delete(c.byKey, k.key)
	c.weight -= k.weight()
}

func (c *cache) size() (entries, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lru.Len(), c.weight
}
