package forward

import (
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// remembering returns a forwarder with an answer from an hour ago, whose upstream is silent now.
func remembering(t *testing.T) (*Forwarder, Question) {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { packets.Close() })
	f := New(Options{Log: slog.New(slog.DiscardHandler), Entries: 10, Bytes: 1 << 20})
	t.Cleanup(f.Wait)
	f.Use([]netip.AddrPort{packets.LocalAddr().(*net.UDPAddr).AddrPort()})
	e, err := newEntry(said(t, 0, "a.example. 300 IN A 192.0.2.1"), someone, time.Now().Add(-time.Hour))
	require.NoError(t, err)
	q := Question{Name: "a.example.", Type: dns.TypeA}
	f.cache.put(q, e)
	return f, q
}

func TestStaleAnswersWhileNoUpstreamAnswers(t *testing.T) {
	t.Parallel()
	f, q := remembering(t)
	begun := time.Now()
	a, err := f.Ask(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, Stale, a.Source)
	require.EqualValues(t, staleTTL, a.Msg.Answer[0].Header().Ttl)
	require.Less(t, time.Since(begun), staleAfter+time.Second)
	f.Wait() // now the upstream is known to be down
	begun = time.Now()
	a, err = f.Ask(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, Stale, a.Source)
	require.Less(t, time.Since(begun), staleAfter/2, "so nobody waits")
	known, ok := f.Known(q)
	require.True(t, ok)
	require.Equal(t, Stale, known.Source)
}

func TestQueriesAreBounded(t *testing.T) {
	t.Parallel()
	f, q := remembering(t)
	for range maxQueries {
		f.slots <- struct{}{}
	}
	_, err := f.Ask(t.Context(), Question{Name: "b.example.", Type: dns.TypeA})
	require.ErrorIs(t, err, ErrBusy)
	a, err := f.Ask(t.Context(), q)
	require.NoError(t, err, "what is known needs no place")
	require.Equal(t, Stale, a.Source)
}
