package relay_test

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/mcp-server/relay"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

var errGone = errors.New("the database is gone")

// same checks that two snapshots are equal byte for byte for every client.
func same(t *testing.T, want, got *served.Snapshot) {
	t.Helper()
	require.Equal(t, want.Revision, got.Revision)
	for url, set := range want.Sets {
		if url == mcpv1.StandingTypeURL {
			continue
		}
		require.Equal(t, set.Len(), got.Sets[url].Len(), url)
		for r := range set.All() {
			other := got.Sets[url].Get(r.Name)
			require.NotNil(t, other, r.Name)
			require.Equal(t, r.Version, other.Version)
			require.Equal(t, r.Body.GetTypeUrl(), other.Body.GetTypeUrl())
			require.Equal(t, r.Body.GetValue(), other.Body.GetValue())
		}
	}
}

func TestARelayOfARelayServesWhatTheOriginDoes(t *testing.T) {
	t.Parallel()
	first := listen(t)
	second := follow(t, nil, first)
	third := follow(t, nil, second)
	require.Nil(t, third.news.Snapshot(), "nobody has anything")
	first.load("m", 7, "a", "b")
	same(t, first.news.Snapshot(), second.at(7, true))
	same(t, first.news.Snapshot(), third.at(7, true))

	first.change(8, "a", "other.example")
	first.publisher.Apply(publish.Changes{Removed: map[*kinds.Kind][]string{serviceEntry: {"default/b"}}}, position(9))
	first.publisher.Apply(publish.Changes{Committed: time.Unix(1, 2)}, position(10)) // a kind that this program does not know
	same(t, first.news.Snapshot(), third.at(10, true))
	told := third.standing(third.news.Snapshot())
	require.Equal(t, []string{third.publisher.ID(), second.publisher.ID(), first.publisher.ID()}, told.GetPath())
	require.Equal(t, "m", told.GetMesh())
}

func TestEveryRelayReportsThatTheOriginIsStale(t *testing.T) {
	t.Parallel()
	first := listen(t)
	second := follow(t, nil, first)
	third := follow(t, nil, second)
	first.load("m", 7, "a")
	fresh := third.at(7, true)
	first.publisher.Lost(errGone)
	since := first.standing(first.news.Snapshot()).GetStaleSince().AsTime()
	stale := third.at(7, false)
	require.Equal(t, since, third.standing(stale).GetStaleSince().AsTime())
	require.Same(t, fresh.Sets[serviceEntry.TypeURL()], stale.Sets[serviceEntry.TypeURL()])
	first.publisher.Stand(origin("m"))
	third.at(7, true)
}

func TestARelayServesOnWhileItsUpstreamIsAway(t *testing.T) {
	t.Parallel()
	first := listen(t)
	second := follow(t, nil, first)
	first.load("m", 7, "a", "b")
	before := second.at(7, true)
	first.kill()
	lost := second.at(7, false)
	require.Same(t, before.Sets[serviceEntry.TypeURL()], lost.Sets[serviceEntry.TypeURL()])
	require.ErrorContains(t, second.publisher.Source().Err, "upstream "+first.addr)

	first.renew() // a new process, with new bodies of the same content
	first.start()
	first.load("m", 8, "a", "b", "c")
	after := second.at(8, true)
	require.Same(t, before.Sets[serviceEntry.TypeURL()].Get("default/a"), after.Sets[serviceEntry.TypeURL()].Get("default/a"),
		"what is the same is not sent again")
	require.NotNil(t, after.Sets[serviceEntry.TypeURL()].Get("default/c"))
}

func TestWhenAnUpstreamIsLostTheNextIsFollowed(t *testing.T) {
	t.Parallel()
	first, other := listen(t), listen(t)
	first.load("m", 7, "a", "b")
	other.load("m", 7, "a", "b")
	second := follow(t, nil, first, other)
	before := second.at(7, true)
	first.kill()
	second.await("the other upstream", func(s *served.Snapshot) bool {
		return second.standing(s).GetStaleSince() == nil && second.standing(s).GetPath()[1] == other.publisher.ID()
	})
	other.change(8, "b", "new.example")
	after := second.at(8, true)
	require.Same(t, before.Sets[serviceEntry.TypeURL()].Get("default/a"), after.Sets[serviceEntry.TypeURL()].Get("default/a"))
	require.Zero(t, second.failures(other))
}

func TestAnUpstreamThatSaysNothingIsLeft(t *testing.T) {
	t.Parallel()
	mute, other := listen(t), listen(t)
	other.load("m", 7, "a")
	second := follow(t, func(o *relay.Options) { o.SilenceTimeout = 50 * time.Millisecond }, mute, other)
	second.at(7, true)
	require.Positive(t, second.failures(mute))
}

func TestAnUpstreamThatStaysStaleIsLeftForOneThatIsNot(t *testing.T) {
	t.Parallel()
	first, other := listen(t), listen(t)
	first.load("m", 7, "a")
	other.load("m", 7, "a")
	second := follow(t, func(o *relay.Options) { o.StaleTimeout = 50 * time.Millisecond }, first, other)
	second.at(7, true)
	first.publisher.Lost(errGone)
	second.await("the other upstream", func(s *served.Snapshot) bool {
		return second.standing(s).GetStaleSince() == nil && second.standing(s).GetPath()[1] == other.publisher.ID()
	})
	require.Positive(t, second.failures(first))
}

// An upstream that came back with an old file, while the relay has seen more, removes nothing. One
// with the database counts, even if that lost something.
func TestARelayGoesBackOnlyWithTheDatabase(t *testing.T) {
	t.Parallel()
	first := listen(t)
	second := follow(t, nil, first)
	first.load("m", 9, "a", "b")
	second.at(9, true)
	first.kill()
	first.renew()
	first.publisher.Prime(&publish.State{
		Mesh: "m", At: position(8), AsOf: time.Now(), Sets: map[*kinds.Kind]*served.Set{serviceEntry: served.NewSet(entry(t, "a", "old.example"))},
	})
	require.True(t, first.publisher.Resume())
	first.start()
	require.Eventually(t, func() bool {
		err := second.publisher.Source().Err
		return err != nil && err.Error() == "upstream "+first.addr+": it has lost its own source, and is behind what is served here (revision 8, and 9 is served)"
	}, limit, time.Millisecond)
	require.Equal(t, []string{"default/a@a.example", "default/b@b.example"}, second.names())

	first.load("m", 8, "a", "c")
	second.at(8, true)
	require.Equal(t, []string{"default/a@a.example", "default/c@c.example"}, second.names())
}

// Two relays that follow each other must not keep a lost mesh alive, and claim that it is new.
func TestRelaysThatFollowEachOther(t *testing.T) {
	t.Parallel()
	first, left, right := listen(t), listen(t), listen(t)
	first.load("m", 7, "a")
	left.relay(nil, first, right)
	right.relay(nil, first, left)
	left.at(7, true)
	right.at(7, true)
	first.kill()
	for _, n := range []*node{left, right} {
		n.at(7, false)
	}
	require.Eventually(t, func() bool { return left.failures(right) > 2 || right.failures(left) > 2 }, limit, time.Millisecond)
	require.Equal(t, []string{"default/a@a.example"}, left.names())

	first.start()
	left.at(7, true)
	right.at(7, true)
	first.change(8, "a", "new.example")
	left.at(8, true)
	right.at(8, true)
}

func TestAnUpstreamOfAnotherMeshIsNotFollowed(t *testing.T) {
	t.Parallel()
	first, other := listen(t), listen(t)
	first.load("m", 7, "a")
	other.load("foreign", 100, "x")
	second := follow(t, nil, first, other)
	second.at(7, true)
	first.kill()
	require.Eventually(t, func() bool { return second.failures(other) > 1 }, limit, time.Millisecond)
	require.Equal(t, int64(1), second.following.Link().Losses, "tries are no losses")
	require.Equal(t, []string{"default/a@a.example"}, second.names())

	first.renew() // the database was created again, and all upstreams agree
	first.start()
	first.load("foreign", 100, "x")
	second.at(100, true)
	require.Equal(t, []string{"default/x@x.example"}, second.names())
	require.Equal(t, "foreign", second.publisher.State().Mesh)
}

func TestARelayBeginsWithWhatItSaved(t *testing.T) {
	t.Parallel()
	first := listen(t)
	first.load("m", 9, "a", "b")
	kept := entry(t, "a", "a.example")
	second := listen(t)
	second.publisher.Prime(&publish.State{
		Mesh: "m", At: position(8), AsOf: time.Now(),
		Sets: map[*kinds.Kind]*served.Set{serviceEntry: served.NewSet(kept, entry(t, "gone", "gone.example"))},
	})
	second.relay(nil, first)
	snap := second.at(9, true)
	require.Same(t, kept, snap.Sets[serviceEntry.TypeURL()].Get("default/a"), "it was not sent")
	require.Equal(t, []string{"default/a@a.example", "default/b@b.example"}, second.names())
}

func TestMetricsAreWellNamed(t *testing.T) {
	t.Parallel()
	second := follow(t, nil, listen(t))
	problems, err := testutil.GatherAndLint(second.metrics)
	require.NoError(t, err)
	require.Empty(t, problems)
}
