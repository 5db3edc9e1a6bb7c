package forward

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

var (
	someone = netip.MustParseAddrPort("192.0.2.1:53")
	noon    = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
)

func said(t *testing.T, code int, records ...string) *dns.Msg {
	t.Helper()
	m := new(dns.Msg).SetQuestion("a.example.", dns.TypeA)
	m.Response, m.Rcode = true, code
	for _, text := range records {
		rr, err := dns.NewRR(text)
		require.NoError(t, err)
		if rr.Header().Rrtype == dns.TypeSOA {
			m.Ns = append(m.Ns, rr)
		} else {
			m.Answer = append(m.Answer, rr)
		}
	}
	return m
}

const soa = "example. %d IN SOA ns.example. you.example. 1 2 3 4 %d"

func TestLifetime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		message *dns.Msg
		want    time.Duration
	}{
		"the shortest record":       {said(t, 0, "a.example. 300 IN CNAME b.example.", "b.example. 20 IN A 192.0.2.1"), 20 * time.Second},
		"a day at most":             {said(t, 0, "a.example. 999999 IN A 192.0.2.1"), 24 * time.Hour},
		"not at all":                {said(t, 0, "a.example. 0 IN A 192.0.2.1"), 0},
		"no such name":              {said(t, dns.RcodeNameError, fmt.Sprintf(soa, 60, 10)), 10 * time.Second},
		"no such name, by its TTL":  {said(t, dns.RcodeNameError, fmt.Sprintf(soa, 6, 10)), 6 * time.Second},
		"no such name, five min.":   {said(t, dns.RcodeNameError, fmt.Sprintf(soa, 86400, 86400)), 5 * time.Minute},
		"no such type":              {said(t, 0, fmt.Sprintf(soa, 60, 10)), 10 * time.Second},
		"nothing said for how long": {said(t, dns.RcodeNameError), 0},
		"a failure":                 {said(t, dns.RcodeServerFailure), time.Second},
	} {
		require.Equal(t, c.want, lifetime(c.message), name)
	}
	cut := said(t, 0, "a.example. 300 IN A 192.0.2.1")
	cut.Truncated = true
	require.Zero(t, lifetime(cut), "half an answer")
}

func TestTTLRunsDown(t *testing.T) {
	t.Parallel()
	e, err := newEntry(said(t, 0, "a.example. 300 IN A 192.0.2.1"), someone, noon)
	require.NoError(t, err)
	for source, want := range map[Source]uint32{Upstream: 290, Cache: 290, Stale: staleTTL} {
		a, err := e.answer(source, noon.Add(10*time.Second))
		require.NoError(t, err)
		require.Equal(t, want, a.Msg.Answer[0].Header().Ttl)
		require.Equal(t, 10*time.Second, a.Age)
		require.Equal(t, someone, a.Upstream)
	}
	a, err := e.answer(Cache, noon.Add(time.Hour))
	require.NoError(t, err)
	require.Zero(t, a.Msg.Answer[0].Header().Ttl)
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	e, err := newEntry(said(t, 0, "a.example. 300 IN A 192.0.2.1"), someone, noon)
	require.NoError(t, err)
	q := func(n int) Question { return Question{Name: fmt.Sprintf("%d.example.", n), Type: dns.TypeA} }
	byCount, bySize := newCache(3, 1<<20), newCache(100, 1200)
	for n := range 100 {
		byCount.put(q(n), e)
		bySize.put(q(n), e)
		byCount.get(q(0), noon) // keeps it recently used
	}
	entries, _ := byCount.size()
	require.Equal(t, 3, entries)
	require.NotNil(t, byCount.get(q(0), noon), "what is used stays")
	require.NotNil(t, byCount.get(q(99), noon))
	require.Nil(t, byCount.get(q(50), noon))
	entries, bytes := bySize.size()
	require.Positive(t, entries)
	require.LessOrEqual(t, bytes, 1200)
	require.Nil(t, byCount.get(Question{Name: "0.example.", Type: dns.TypeA, DNSSEC: true}, noon), "another question")
	require.Nil(t, byCount.get(Question{Name: "0.example.", Type: dns.TypeAAAA}, noon))
}

func TestOldEntriesAreDropped(t *testing.T) {
	t.Parallel()
	c, q := newCache(3, 1<<20), Question{Name: "a.example.", Type: dns.TypeA}
	e, err := newEntry(said(t, 0, "a.example. 300 IN A 192.0.2.1"), someone, noon)
	require.NoError(t, err)
	c.put(q, e)
	require.NotNil(t, c.get(q, noon.Add(time.Hour)), "though stale")
	failed, err := newEntry(said(t, dns.RcodeServerFailure), someone, noon.Add(time.Hour))
	require.NoError(t, err)
	c.put(q, failed)
	require.False(t, c.get(q, noon.Add(time.Hour)).failure, "a failure takes nobody's place")
	require.Nil(t, c.get(q, noon.Add(25*time.Hour)))
	entries, bytes := c.size()
	require.Zero(t, entries)
	require.Zero(t, bytes)
	c.put(q, failed)
	require.NotNil(t, c.get(q, noon.Add(time.Hour)))
	require.Nil(t, c.get(q, noon.Add(2*time.Hour)), "a failure is never stale")
}
