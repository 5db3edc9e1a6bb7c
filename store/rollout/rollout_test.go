package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// bench is a database with a keeper, and a report of the discovery eu.
type bench struct {
	t      *testing.T
	db     storetest.Session
	store  *store.Store
	keeper *rollout.Keeper
	report int64
	number int64
}

func newBench(t *testing.T) *bench {
	t.Helper()
	url := pgtest.New(t)
	b := &bench{t: t, db: storetest.Connect(t, url), store: storetest.OpenURL(t, url)}
	b.keeper = b.keep("mcp")
	b.begin()
	return b
}

func (b *bench) keep(server string) *rollout.Keeper {
	b.t.Helper()
	k, err := rollout.New(b.store).Keep(b.t.Context(), server)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { k.Close(b.t.Context()) })
	return k
}

func (b *bench) begin() {
	b.t.Helper()
	var err error
	b.report, err = b.keeper.Begin(b.t.Context(), "eu")
	require.NoError(b.t, err)
	b.number = 0
}

// tells reports the next message.
func (b *bench) tells(revision int64, proxies []rollout.Proxy, gone ...uint64) {
	b.t.Helper()
	b.number++
	require.NoError(b.t, b.keeper.Report(b.t.Context(), b.report, rollout.Message{Number: b.number, Revision: revision, Proxies: proxies, Gone: gone}))
}

// shows is what mesh.proxies shows.
func (b *bench) shows(lines ...string) {
	b.t.Helper()
	require.Equal(b.t, append([]string{}, lines...), b.lines())
}

func (b *bench) lines() []string {
	b.t.Helper()
	return storetest.Collect[string](b.db, `SELECT concat_ws(' ', namespace || '/' || proxy, state, coalesce(sent::text, '-'), coalesce(runs::text, '-'), refused)
		FROM mesh.proxies ORDER BY namespace, proxy`)
}

// of is a proxy in step, of the namespace shop and with a description.
func of(stream uint64, name string) rollout.Proxy {
	return rollout.Proxy{Stream: stream, State: rollout.Synced, Description: &rollout.Description{
		Node: "sidecar~10.0.0.1~" + name + ".shop~shop.local", Proxy: name, Namespace: "shop", ServiceAccount: "cart", Role: "sidecar",
		Labels: map[string]string{"app": name}, Locality: "eu/a", Network: "n1", Addresses: []string{"10.0.0.1", "::1"},
		Envoy: "1.36.0", Agent: "1.0", Protocol: "delta", Connected: time.Now().Add(-time.Minute).Truncate(time.Microsecond),
	}}
}

func TestWhatIsReportedShows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cart := of(1, "cart")
	b.tells(7, []rollout.Proxy{cart})
	list, err := rollout.New(b.store).List(t.Context(), rollout.Filter{Namespaces: []string{"shop"}, Proxy: "cart", State: rollout.Synced})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.True(t, cart.Connected.Equal(list[0].Connected))
	require.WithinDuration(t, time.Now(), list[0].Changed, time.Minute)
	require.True(t, list[0].Gone.IsZero())
	list[0].Connected, list[0].Changed, list[0].Gone = cart.Connected, time.Time{}, time.Time{}
	require.Equal(t, rollout.Listed{Description: *cart.Description, Discovery: "eu", Server: "mcp", State: rollout.Synced, Sent: 7, Runs: 7}, list[0])
	for _, none := range []rollout.Filter{{Namespaces: []string{"web"}}, {Namespaces: []string{}}, {Proxy: "web\x00"}, {State: rollout.Away}} {
		list, err := rollout.New(b.store).List(t.Context(), none)
		require.NoError(t, err)
		require.Empty(t, list, none)
	}
}

// One number moves all that are in step, and no row of theirs.
func TestAMessageMovesAllThatAreInStep(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tells(7, []rollout.Proxy{of(1, "cart"), of(2, "pay"), {
		Stream: 3, State: rollout.Refused, Sent: 7, Runs: 5, Refused: 2, Description: of(3, "web").Description,
	}})
	b.shows("shop/cart synced 7 7 0", "shop/pay synced 7 7 0", "shop/web refused 7 5 2")
	const rows = "SELECT string_agg(xmin::text, ' ' ORDER BY stream) FROM mesh_internal.reported_proxies"
	before := storetest.Value[string](b.db, rows)
	b.tells(8, nil)
	b.shows("shop/cart synced 8 8 0", "shop/pay synced 8 8 0", "shop/web refused 7 5 2")
	require.Equal(t, before, storetest.Value[string](b.db, rows))

	const changed = "SELECT changed FROM mesh.proxies WHERE proxy = 'pay'"
	since := storetest.Value[time.Time](b.db, changed)
	b.tells(9, []rollout.Proxy{{Stream: 1, State: rollout.Sending, Sent: 9}, {Stream: 2, State: rollout.Silent, Sent: 9, Runs: 8}, {Stream: 3, State: rollout.Synced}})
	b.shows("shop/cart sending 9 - 0", "shop/pay silent 9 8 0", "shop/web synced 9 9 0")
	silent := storetest.Value[time.Time](b.db, changed)
	require.Greater(t, silent, since)
	b.tells(10, []rollout.Proxy{{Stream: 2, State: rollout.Silent, Sent: 10, Runs: 8}})
	require.Equal(t, silent, storetest.Value[time.Time](b.db, changed), "the state is the same")
}

// A message whose answer got lost is sent again.
func TestAMessageIsTakenOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tells(7, []rollout.Proxy{of(1, "cart")})
	b.tells(8, nil, 1)
	again := rollout.Message{Number: 1, Revision: 7, Proxies: []rollout.Proxy{of(1, "cart")}}
	require.NoError(t, b.keeper.Report(t.Context(), b.report, again))
	b.shows("shop/cart away 7 7 0")
}

// Who is gone stays at what it ran. Back at another report it is shown there alone, whatever comes
// of the stream that it had before.
func TestAProxyThatComesBackElsewhereShowsOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tells(7, []rollout.Proxy{of(1, "cart"), of(2, "pay")})
	b.tells(9, nil, 1, 99)
	b.shows("shop/cart away 7 7 0", "shop/pay synced 9 9 0")
	require.NotZero(t, storetest.Value[time.Time](b.db, "SELECT gone FROM mesh.proxies WHERE proxy = 'cart'"))

	other := b.keep("other")
	id, err := other.Begin(t.Context(), "us")
	require.NoError(t, err)
	pay := of(5, "pay") // nobody has noticed yet that its other stream broke
	pay.Connected = time.Now().Add(time.Hour)
	require.NoError(t, other.Report(t.Context(), id, rollout.Message{Number: 1, Revision: 10, Proxies: []rollout.Proxy{of(4, "cart"), pay}}))
	b.shows("shop/cart synced 10 10 0", "shop/pay synced 10 10 0")
	require.Equal(t, int64(1), b.sweep(), "what it was before")
	require.NoError(t, other.End(t.Context(), id))
	b.shows("shop/cart away 10 10 0", "shop/pay synced 9 9 0")
}

func (b *bench) sweep() int64 {
	b.t.Helper()
	n, err := rollout.New(b.store).Sweep(b.t.Context())
	require.NoError(b.t, err)
	return n
}

// terminate kills the session of a server, and waits until it is gone.
func (b *bench) terminate(server string) {
	b.t.Helper()
	pid := storetest.Value[int](b.db, "SELECT pid FROM mesh_internal.report_keepers WHERE server = $1", server)
	b.db.Exec("SELECT pg_terminate_backend($1)", pid)
	poll.Within(b.t, 10*time.Second, func(context.Context) error {
		if storetest.Value[bool](b.db, "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1)", pid) {
			return errors.New("it has locks")
		}
		return nil
	})
}

func TestReportsEndWithTheSessionOfTheirServer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tells(7, []rollout.Proxy{of(1, "cart"), of(2, "pay")})
	require.NoError(t, b.keeper.Alive(t.Context()))
	b.terminate("mcp")
	b.shows("shop/cart away 7 7 0", "shop/pay away 7 7 0")
	require.ErrorIs(t, b.keeper.Report(t.Context(), b.report, rollout.Message{Number: 2, Revision: 8}), rollout.ErrEnded)
	_, err := b.keeper.Begin(t.Context(), "eu")
	require.ErrorIs(t, err, rollout.ErrEnded)
	require.ErrorIs(t, b.keeper.Alive(t.Context()), rollout.ErrEnded)
	require.ErrorIs(t, b.keeper.Alive(t.Context()), rollout.ErrEnded)
	b.keeper.Close(t.Context())

	b.keeper = b.keep("mcp")
	b.begin()
	b.tells(8, []rollout.Proxy{of(1, "cart")})
	b.shows("shop/cart synced 8 8 0", "shop/pay away 7 7 0")
	b.sweep()
	require.NotZero(t, storetest.Value[time.Time](b.db, "SELECT gone FROM mesh.proxies WHERE proxy = 'pay'"), "now it is known")
}

// Anybody may take such locks. They say nothing of a session that is gone.
func TestOthersLocksSayNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tells(7, []rollout.Proxy{of(1, "cart")})
	b.terminate("mcp")
	b.db.Exec("SELECT pg_advisory_lock(1835365225, id) FROM mesh_internal.report_keepers")
	b.shows("shop/cart away 7 7 0")
	require.ErrorIs(t, b.keeper.Report(t.Context(), b.report, rollout.Message{Number: 2, Revision: 8}), rollout.ErrEnded)
}

func TestWhatIsAwayIsSwept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tells(7, []rollout.Proxy{of(1, "cart"), of(2, "pay"), of(3, "web")})
	b.tells(8, nil, 1, 2)
	b.db.Exec("BEGIN")
	require.Zero(t, storetest.Value[int64](b.db, "SELECT mesh_internal.sweep_reports('10 min')"))
	require.True(t, storetest.Value[bool](b.db, "SELECT pg_current_xact_id_if_assigned() IS NULL"), "it writes nothing")
	b.db.Exec("COMMIT")
	b.db.Exec("UPDATE mesh_internal.reported_proxies SET gone = now() - interval '11 min' WHERE stream = 1")
	require.Equal(t, int64(1), b.sweep())
	b.shows("shop/pay away 7 7 0", "shop/web synced 8 8 0")

	b.keeper.Close(t.Context())
	b.shows("shop/pay away 7 7 0", "shop/web away 8 8 0")
	require.Zero(t, b.sweep())
	b.db.Exec("UPDATE mesh_internal.reports SET ended = now() - interval '11 min'")
	require.Equal(t, int64(4), b.sweep(), "two proxies, their report, and the server")
	b.shows()
	require.Zero(t, storetest.Value[int](b.db, "SELECT count(*)::int FROM mesh_internal.report_keepers"))
}

// What a proxy says of itself is its own.
func TestTextsOfProxiesAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	long := strings.Repeat("ä\x00", 1<<19)
	p := of(1, "cart\x00\xff")
	p.Node, p.ServiceAccount, p.Locality, p.Network, p.Envoy, p.Agent, p.Protocol = long, long, long, long, long, long, long
	p.Labels = map[string]string{"app": "a\x00b", "long": long, long: "x"}
	for i := range 1000 {
		p.Labels[fmt.Sprint("label", i)] = strings.Repeat("x", 1000)
		p.Addresses = append(p.Addresses, long)
	}
	p.State, p.Refused, p.Connected = rollout.Refused, math.MaxUint32, time.Time{}
	q := of(2, long)
	q.Namespace, q.Connected = long, time.Now().AddDate(10000, 0, 0)
	b.tells(7, []rollout.Proxy{p, q})
	list, err := rollout.New(b.store).List(t.Context(), rollout.Filter{Namespaces: []string{"shop"}})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "cart\uFFFD\uFFFD", list[0].Proxy)
	require.Equal(t, "a\uFFFDb", list[0].Labels["app"])
	require.NotContains(t, list[0].Labels, "long")
	require.Equal(t, uint32(math.MaxInt32), list[0].Refused)
	require.Less(t, storetest.Value[int](b.db, "SELECT max(octet_length(p::text)) FROM mesh.proxies p"), 60_000)
}

func TestMessagesThatCannotBeTakenAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, m := range []rollout.Message{
		{Number: 0, Revision: 1},
		{Number: 1, Revision: -1},
		{Number: 1, Proxies: []rollout.Proxy{of(1, "a"), of(1, "b")}},
		{Number: 1, Proxies: []rollout.Proxy{of(math.MaxUint64, "a")}},
		{Number: 1, Proxies: []rollout.Proxy{{Stream: 1, State: rollout.Synced}}},
		{Number: 1, Proxies: []rollout.Proxy{{Stream: 1, State: rollout.Away, Description: of(1, "a").Description}}},
		{Number: 1, Proxies: []rollout.Proxy{{Stream: 1, State: rollout.Sending, Sent: -1, Description: of(1, "a").Description}}},
	} {
		var invalid *store.InvalidError
		require.ErrorAs(t, b.keeper.Report(t.Context(), b.report, m), &invalid, m)
		require.NotEmpty(t, invalid.Advice)
	}
	b.shows()
	require.ErrorIs(t, b.keeper.Report(t.Context(), b.report+1, rollout.Message{Number: 1}), rollout.ErrEnded)
	require.NoError(t, b.keeper.End(t.Context(), b.report))
	require.ErrorIs(t, b.keeper.Report(t.Context(), b.report, rollout.Message{Number: 1}), rollout.ErrEnded)
}

func TestManyProxiesAreTakenInAMoment(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fastest := time.Hour // of several, for others use the machine, too
	for range 3 {
		b.begin()
		var all []rollout.Proxy
		for i := range uint64(2000) {
			all = append(all, of(i, fmt.Sprint("p", i)))
		}
		began := time.Now()
		b.tells(7, all)
		for i := range all {
			all[i] = rollout.Proxy{Stream: uint64(i), State: rollout.Sending, Sent: 8, Runs: 7}
		}
		b.tells(8, all)
		fastest = min(fastest, time.Since(began)/2)
	}
	require.Less(t, fastest, time.Second)
	require.Equal(t, int64(2000), storetest.Value[int64](b.db, "SELECT count(*) FROM mesh.runs_at(7)"))
	require.Zero(t, storetest.Value[int64](b.db, "SELECT count(*) FROM mesh.runs_at(8)"))
}

// A message reads the rows of its proxies and no others, though statistics know nothing of its report.
func TestAMessageReadsNoRowsOfOtherProxies(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var all []rollout.Proxy
	for i := range uint64(1000) {
		all = append(all, of(i, fmt.Sprint("p", i)))
	}
	b.tells(7, all)
	b.db.Exec("ANALYZE mesh_internal.reported_proxies")
	b.begin()
	b.tells(7, all)
	b.db.Exec("BEGIN")
	b.db.Exec(`SELECT mesh_internal.take_report(r.keeper, r.id, r.number + 1, 8, (SELECT jsonb_agg(jsonb_build_object('stream', i, 'state', $2::text, 'sent', 8, 'runs', 7, 'refused', 0))
		FROM generate_series(0, 9) i), '{}') FROM mesh_internal.reports r WHERE r.id = $1`, b.report, string(rollout.Sending))
	require.LessOrEqual(t, storetest.Value[int64](b.db, `SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables WHERE relname = 'reported_proxies'`), int64(20))
	b.db.Exec("COMMIT")
	require.Equal(t, int64(990), storetest.Value[int64](b.db, "SELECT count(*) FROM mesh.runs_at(8)"))
}

// Nothing of it is a revision, and no program is told.
func TestReportsAreNoRevisions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.db.Put("a", "b")
	heard := storetest.Connect(t, b.db.Conn.Config().ConnString())
	heard.Exec("LISTEN mesh; LISTEN mesh_servers")
	const state = "SELECT concat_ws(' ', (SELECT count(*) FROM mesh_internal.transactions), (SELECT count(*) FROM mesh_internal.changes), mesh.newest_revision())"
	before := storetest.Value[string](b.db, state)
	b.tells(7, []rollout.Proxy{of(1, "cart"), of(2, "pay")})
	b.tells(8, nil, 1)
	b.keeper.Close(t.Context())
	b.sweep()
	require.Equal(t, before, storetest.Value[string](b.db, state))
	b.db.Exec("NOTIFY mesh, 'the next'")
	n, err := heard.Conn.WaitForNotification(t.Context())
	require.NoError(t, err)
	require.Equal(t, "the next", n.Payload)
}

func TestProxiesAreCountedByWhatTheyRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := rollout.New(b.store)
	gate := of(4, "gate")
	gate.Namespace = "bank"
	b.tells(7, []rollout.Proxy{of(1, "cart"), of(2, "pay"), {Stream: 3, State: rollout.Refused, Sent: 7, Refused: 2, Description: of(3, "web").Description}, gate})
	tallies, err := s.Tally(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []rollout.Tally{
		{Namespace: "shop", State: rollout.Synced, Sent: 7, Runs: 7, Count: 2},
		{Namespace: "shop", State: rollout.Refused, Sent: 7, Count: 1},
		{Namespace: "bank", State: rollout.Synced, Sent: 7, Runs: 7, Count: 1},
	}, tallies)

	behind := func(revision int64, namespaces []string, most int) (names []string) {
		list, err := s.Behind(t.Context(), namespaces, revision, most)
		require.NoError(t, err)
		for _, p := range list {
			names = append(names, p.Namespace+"/"+p.Proxy)
		}
		return names
	}
	require.Equal(t, []string{"shop/web"}, behind(7, nil, 5))
	require.Equal(t, []string{"shop/web", "bank/gate", "shop/cart"}, behind(8, nil, 3))
	require.Equal(t, []string{"bank/gate"}, behind(8, []string{"bank"}, 5))
	require.Empty(t, behind(8, []string{}, 5))
	newest, err := s.Newest(t.Context())
	require.NoError(t, err)
	require.Zero(t, newest)
}
