package mcp_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// forLong outlasts a test, briefly is short enough to wait for.
func forLong(cfg *mcp.Config) { cfg.HoldEmpty = time.Hour }
func briefly(cfg *mcp.Config) { cfg.HoldEmpty = 300 * time.Millisecond }

func held(f *follower) map[string]int {
	counts := map[string]int{}
	for _, h := range f.client.Status().Held {
		counts[h.Kind.Name] = h.Resources
	}
	return counts
}

// holds waits until the client holds these numbers of resources by kind. It reports that after a
// batch was applied.
func (f *follower) holds(want map[string]int) {
	f.t.Helper()
	require.Eventually(f.t, func() bool { return maps.Equal(want, held(f)) }, limit, time.Millisecond)
}

func TestSuddenlyEmptyKindIsHeld(t *testing.T) {
	t.Parallel()
	p := newPeer(t, likeHigress())
	p.lists[serviceEntry.TypeURL()] = bodies(t, entry("a", "1"), entry("b", "1"))
	p.lists[virtualService.TypeURL()] = bodies(t, route("r", "1"), route("s", "1"))
	f := follow(t, p.addr, forLong)
	f.expect(0, "ServiceEntry default/a=1", "ServiceEntry default/b=1", "VirtualService default/r=1", "VirtualService default/s=1")

	p.mu.Lock()
	p.lists[serviceEntry.TypeURL()], p.lists[virtualService.TypeURL()] = nil, bodies(t, route("r", "1")) // one of two may well go
	p.push()
	p.mu.Unlock()
	f.expect(0, "VirtualService default/s gone")
	p.serve(virtualService.TypeURL(), bodies(t, route("r", "2"))...)
	f.expect(0, "VirtualService default/r=2")
	f.holds(map[string]int{"ServiceEntry": 2})
	require.WithinDuration(t, time.Now().Add(time.Hour), f.client.Status().Held[0].Until, time.Minute)

	// Still empty on another stream, but not for long enough.
	p.replace(map[string][]*anypb.Any{virtualService.TypeURL(): bodies(t, route("r", "3"))})
	f.expect(0, "VirtualService default/r=3")
	f.holds(map[string]int{"ServiceEntry": 2})

	// It has resources again: these count, and the others are removed.
	p.serve(serviceEntry.TypeURL(), bodies(t, entry("b", "1"), entry("c", "1"))...)
	f.expect(0, "ServiceEntry default/a gone", "ServiceEntry default/b=1", "ServiceEntry default/c=1")
	f.holds(nil)
}

func TestKindThatStaysEmptyIsReleased(t *testing.T) {
	t.Parallel()
	p := newPeer(t, likeHigress())
	p.serve(serviceEntry.TypeURL(), bodies(t, entry("a", "1"))...)
	f := follow(t, p.addr, only(serviceEntry), briefly)
	f.expect(0, "ServiceEntry default/a=1")
	began := time.Now()
	p.serve(serviceEntry.TypeURL())
	f.expect(0, "ServiceEntry default/a gone")
	require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)
	f.holds(nil)
}

// Without a connected server, an empty kind is not confirmed.
func TestHoldOutlastsLostServer(t *testing.T) {
	t.Parallel()
	p := newPeer(t, likeHigress())
	p.serve(serviceEntry.TypeURL(), bodies(t, entry("a", "1"))...)
	f := follow(t, p.addr, only(serviceEntry), briefly)
	f.expect(0, "ServiceEntry default/a=1")
	p.serve(serviceEntry.TypeURL())
	require.Eventually(t, func() bool { return len(held(f)) > 0 }, limit, time.Millisecond)
	until := f.client.Status().Held[0].Until
	p.kill()
	p.lists[serviceEntry.TypeURL()] = bodies(t, entry("b", "1"))
	require.Eventually(t, func() bool { return time.Now().After(until) }, limit, time.Millisecond)
	p.start()
	f.expect(0, "ServiceEntry default/a gone", "ServiceEntry default/b=1")
}

// A transaction of a pgmesh server that empties a kind is deliberate. A different state after a
// reconnect need not be.
func TestRevisionThatEmptiesKindIsBelieved(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, form func(*mcp.Config)) {
		s := newSource(t)
		s.commit(1, resources{entry("a", "1"), route("r", "1")})
		f := follow(t, s.addr, form, forLong)
		f.expect(1, "ServiceEntry default/a=1", "VirtualService default/r=1")
		s.commit(2, nil, entry("a", "").Key())
		f.expect(2, "ServiceEntry default/a gone")
		s.kill()
		s.commit(3, resources{entry("a", "3")}, route("r", "").Key())
		s.start()
		f.expect(3, "ServiceEntry default/a=3")
		f.holds(map[string]int{"VirtualService": 1})
		s.commit(4, resources{route("q", "4")})
		f.expect(4, "VirtualService default/r gone", "VirtualService default/q=4")
	})
}

func TestHoldAfterReconnectToPgmesh(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	s.commit(1, resources{entry("a", "1")})
	f := follow(t, s.addr, briefly)
	f.expect(1, "ServiceEntry default/a=1")
	s.kill()
	s.commit(2, nil, entry("a", "").Key())
	s.start()
	f.expect(2)
	f.holds(map[string]int{"ServiceEntry": 1})
	b := f.expect(2, "ServiceEntry default/a gone")
	require.Equal(t, "2", b.Mark)
}
