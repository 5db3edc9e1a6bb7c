package rollout_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// sends reports a message as it is, except for its number.
func (b *bench) sends(m rollout.Message) {
	b.t.Helper()
	b.number++
	m.Number = b.number
	require.NoError(b.t, b.keeper.Report(b.t.Context(), b.report, m))
}

// rolled lists mesh.rollouts as lines, times in milliseconds since a moment.
func rolled(s storetest.Session, began time.Time) []string {
	return storetest.Collect[string](s, `SELECT concat_ws(' ', revision, author IS NOT NULL, concerned, ran, refused, to_answer, away, '|', round(extract(epoch FROM first_at - $1) * 1000),
		round(extract(epoch FROM half_at - $1) * 1000), round(extract(epoch FROM last_at - $1) * 1000)) FROM mesh.rollouts ORDER BY revision`, began)
}

func began() time.Time { return time.Now().Add(-time.Second).Truncate(time.Millisecond) }

func TestARolloutShowsHowFarARevisionHasCome(t *testing.T) {
	t.Parallel()
	b, at := newBench(t), began()
	for _, name := range []string{"a", "b", "c", "d"} {
		b.db.Put(name, name+".example")
	}
	push := rollout.Rollout{Revision: 3, After: 1, Began: at, Parts: []rollout.Part{
		{Namespace: "shop", Concerned: 5, Ran: 3, Refused: 1, Took: []uint64{2000, 4000, 90000}},
		{Namespace: "web", Concerned: 3, Ran: 1, Away: 1, Took: []uint64{5000}},
	}}
	b.sends(rollout.Message{Revision: 3, Proxies: []rollout.Proxy{of(1, "cart")}, Rollouts: []rollout.Rollout{push}})
	require.Equal(t, []string{
		"1 t 0 0 0 0 0 |",
		"2 t 8 4 1 2 1 | 2 4 90",
		"3 t 8 4 1 2 1 | 2 4 90",
		"4 t 0 0 0 0 0 |",
	}, rolled(b.db, at), "what travelled together has the same numbers")

	other := b.keep("other")
	id, err := other.Begin(t.Context(), "us")
	require.NoError(t, err)
	require.NoError(t, other.Report(t.Context(), id, rollout.Message{Number: 1, Revision: 3, Rollouts: []rollout.Rollout{
		{Revision: 3, After: 2, Began: at.Add(7 * time.Millisecond), Parts: []rollout.Part{{Namespace: "shop", Concerned: 2, Ran: 1, Took: []uint64{0}}}},
	}}))
	require.Equal(t, "3 t 10 5 1 3 1 | 2 5 90", rolled(b.db, at)[2])
	parts, err := rollout.New(b.store).Of(t.Context(), nil, 3)
	require.NoError(t, err)
	require.Len(t, parts, 1)
	var lines []string
	for _, p := range parts[0].Parts {
		lines = append(lines, fmt.Sprint(p.Discovery, " ", p.Namespace, " ", p.Concerned, p.Ran, p.Refused, p.ToAnswer, p.Away, p.Half.Sub(at)))
	}
	require.Equal(t, []string{"eu shop 5 3 1 1 0 4ms", "eu web 3 1 0 1 1 5ms", "us shop 2 1 0 1 0 7ms"}, lines)

	push.Parts[0] = rollout.Part{Namespace: "shop", Concerned: 5, Ran: 5, Took: []uint64{2000, 4000, 4000, 4000, 90000}}
	b.sends(rollout.Message{Revision: 3, Rollouts: []rollout.Rollout{push}})
	require.Equal(t, "2 t 8 6 0 1 1 | 2 4 90", rolled(b.db, at)[1], "it is replaced as a whole")
	other.Close(t.Context())
	require.Equal(t, "3 t 10 7 0 1 2 | 2 4 90", rolled(b.db, at)[2], "nobody hears any more of who has not answered")
}

// Of more proxies than there are times, the times stand for those between.
func TestHalfOfTheProxiesIsFoundAmongTimesOfSome(t *testing.T) {
	t.Parallel()
	b, at := newBench(t), began()
	b.db.Put("a", "a.example")
	took := make([]uint64, 32)
	for i := range took {
		took[i] = uint64(i) * 1000
	}
	b.sends(rollout.Message{Revision: 1, Rollouts: []rollout.Rollout{{Revision: 1, Began: at, Parts: []rollout.Part{
		{Namespace: "many", Concerned: 1000, Ran: 1000, Took: took}, {Namespace: "few", Concerned: 3, Ran: 3, Took: []uint64{100000, 100000, 100000}},
	}}}})
	require.Equal(t, []string{"1 t 1003 1003 0 0 0 | 0 16 100"}, rolled(b.db, at), "they count for as many as there are")
}

// A discovery that has lost its server reports all again elsewhere, and one that starts anew brings
// every revision again. Neither counts twice.
func TestARolloutCountsOnce(t *testing.T) {
	t.Parallel()
	b, at := newBench(t), began()
	for _, name := range []string{"a", "b", "c"} {
		b.db.Put(name, name+".example")
	}
	push := rollout.Rollout{Revision: 2, After: 1, Began: at, Parts: []rollout.Part{{Namespace: "shop", Concerned: 2, Ran: 1, Took: []uint64{1000}}}}
	b.sends(rollout.Message{Revision: 2, Proxies: []rollout.Proxy{of(1, "cart")}, Rollouts: []rollout.Rollout{push}})
	b.keeper.Close(t.Context())
	require.Equal(t, []string{"1 t 0 0 0 0 0 |", "2 t 2 1 0 0 1 | 1 1 1", "3 t 0 0 0 0 0 |"}, rolled(b.db, at))
	b.keeper = b.keep("other")
	b.begin()
	push.Parts[0].Ran, push.Parts[0].Took = 2, []uint64{1000, 3000}
	b.sends(rollout.Message{Revision: 2, Proxies: []rollout.Proxy{of(1, "cart")}, Rollouts: []rollout.Rollout{push}})
	require.Equal(t, []string{"1 t 0 0 0 0 0 |", "2 t 2 2 0 0 0 | 1 1 3", "3 t 0 0 0 0 0 |"}, rolled(b.db, at))
	const pushes = "SELECT count(*) FROM mesh_internal.report_rollouts"
	require.Equal(t, int64(2), storetest.Value[int64](b.db, pushes))
	_, err := rollout.New(b.store).Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(1), storetest.Value[int64](b.db, pushes), "one of them is shown")
	require.Equal(t, "2 t 2 2 0 0 0 | 1 1 3", rolled(b.db, at)[1])
	b.keeper.Close(t.Context())
	b.keeper = b.keep("third")
	b.begin()
	b.sends(rollout.Message{Revision: 3, Rollouts: []rollout.Rollout{{Revision: 3, Began: at, Parts: []rollout.Part{{Namespace: "shop", Concerned: 7}}}}})
	require.Equal(t, []string{"1 t 7 0 0 7 0 |", "2 t 2 2 0 0 0 | 1 1 3", "3 t 7 0 0 7 0 |"}, rolled(b.db, at))
}

func TestOldRolloutsGo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.db.Put("a", "a.example")
	const all = "SELECT count(*) FROM mesh_internal.report_rollouts"
	for portion := range 6 {
		var pushes []rollout.Rollout
		for i := range 200 {
			revision := int64(portion*200 + i + 1)
			pushes = append(pushes, rollout.Rollout{Revision: revision, After: revision - 1, Began: time.Now()})
		}
		b.sends(rollout.Message{Revision: 1, Rollouts: pushes})
	}
	require.Equal(t, int64(1200), storetest.Value[int64](b.db, all))
	sweep := func() int64 {
		t.Helper()
		removed, err := rollout.New(b.store).Sweep(t.Context())
		require.NoError(t, err)
		return removed
	}
	require.Equal(t, int64(200), sweep())
	require.Equal(t, int64(201), storetest.Value[int64](b.db, "SELECT min(revision) FROM mesh_internal.report_rollouts"))
	require.Zero(t, sweep())
	b.number = 99 // a message in a hundred removes as well
	b.sends(rollout.Message{Revision: 1, Rollouts: []rollout.Rollout{{Revision: 5000, After: 4000, Began: time.Now()}}})
	require.Equal(t, int64(1000), storetest.Value[int64](b.db, all))

	b.sends(rollout.Message{Revision: 1, Audiences: []rollout.Audience{{Resource: rollout.Resource{Name: "x"}, Everyone: true}}, Problems: &[]rollout.Problem{{Code: "x"}}, Times: &rollout.Times{}})
	b.keeper.Close(t.Context())
	sweep()
	const reports = "SELECT count(*) FROM mesh_internal.reports"
	require.Equal(t, int64(1), storetest.Value[int64](b.db, reports), "its rollouts stay")
	for _, table := range []string{"report_audiences", "report_problems", "report_times"} {
		require.Zero(t, storetest.Value[int64](b.db, "SELECT count(*) FROM mesh_internal."+table), table)
	}
	b.db.Exec("UPDATE mesh_internal.report_rollouts SET began = now() - interval '61 min'")
	require.Equal(t, int64(1002), sweep(), "with the report and its keeper")
	require.Zero(t, storetest.Value[int64](b.db, reports))
}

func TestRolloutsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	part := func(p rollout.Part) []rollout.Rollout {
		return []rollout.Rollout{{Revision: 2, After: 1, Parts: []rollout.Part{p}}}
	}
	for name, m := range map[string]rollout.Message{
		"no revision":           {Rollouts: []rollout.Rollout{{}}},
		"nothing since":         {Rollouts: []rollout.Rollout{{Revision: 2, After: 2}}},
		"before the first":      {Rollouts: []rollout.Rollout{{Revision: 2, After: -1}}},
		"twice":                 {Rollouts: []rollout.Rollout{{Revision: 2}, {Revision: 2, After: 1}}},
		"a namespace twice":     {Rollouts: []rollout.Rollout{{Revision: 2, Parts: []rollout.Part{{Namespace: "a\x00"}, {Namespace: "a\uFFFD"}}}}},
		"too many answers":      {Rollouts: part(rollout.Part{Concerned: 3, Ran: 2, Refused: 1, Away: 1})},
		"answers overflow":      {Rollouts: part(rollout.Part{Concerned: math.MaxUint32, Ran: math.MaxUint32, Refused: math.MaxUint32})},
		"too many times":        {Rollouts: part(rollout.Part{Concerned: 3, Ran: 1, Took: []uint64{1, 2}})},
		"times out of order":    {Rollouts: part(rollout.Part{Concerned: 3, Ran: 2, Took: []uint64{2, 1}})},
		"an audience twice":     {Audiences: []rollout.Audience{{Resource: rollout.Resource{Name: "a"}}, {Resource: rollout.Resource{Name: "a"}, Everyone: true}}},
		"a time too few":        {Times: &rollout.Times{Streams: []uint64{1, 2}, Took: []uint64{1}}},
		"a stream twice":        {Times: &rollout.Times{Streams: []uint64{1, 1}, Took: []uint64{1, 1}}},
		"streams that overflow": {Times: &rollout.Times{Streams: []uint64{math.MaxUint64, math.MaxUint64 - 1}, Took: []uint64{1, 1}}},
	} {
		m.Number = 1
		err := b.keeper.Report(t.Context(), b.report, m)
		var invalid *store.InvalidError
		require.ErrorAs(t, err, &invalid, name)
	}
}

// What a message does not have is not written: most have a number alone.
func TestAMessageWritesWhatIsInIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sends(rollout.Message{
		Revision: 1, Proxies: []rollout.Proxy{of(1, "cart")}, Rollouts: []rollout.Rollout{{Revision: 1, Began: began()}}, Audiences: []rollout.Audience{concerning("web")},
		Problems: &[]rollout.Problem{}, Times: &rollout.Times{Streams: []uint64{1}, Took: []uint64{1}},
	})
	const rows = `SELECT string_agg(xmin::text, ' ') FROM (SELECT xmin FROM mesh_internal.reported_proxies UNION ALL SELECT xmin FROM mesh_internal.report_rollouts
		UNION ALL SELECT xmin FROM mesh_internal.report_audiences UNION ALL SELECT xmin FROM mesh_internal.report_problems UNION ALL SELECT xmin FROM mesh_internal.report_times) r`
	before := storetest.Value[string](b.db, rows)
	b.sends(rollout.Message{Revision: 2})
	require.Equal(t, before, storetest.Value[string](b.db, rows))
	b.sends(rollout.Message{Revision: 3, Rollouts: []rollout.Rollout{{Revision: 3, After: 1, Began: began()}}})
	require.Equal(t, before, storetest.Value[string](b.db, rows+" WHERE xmin::text::bigint <= (SELECT max(xmin::text::bigint) FROM mesh_internal.report_audiences)"), "another push is another row")
	again := rollout.Message{Number: 1, Revision: 1, Problems: &[]rollout.Problem{{Code: "x"}}, Rollouts: []rollout.Rollout{{Revision: 9, Began: began()}}}
	require.NoError(t, b.keeper.Report(t.Context(), b.report, again))
	require.Equal(t, []int64{1, 3}, storetest.Collect[int64](b.db, "SELECT revision FROM mesh_internal.report_rollouts ORDER BY 1"), "it was taken already")
}

// A tenant sees how many of its proxies run a revision, also if it may not know what that changed.
func TestRolloutsAreOfTheirNamespace(t *testing.T) {
	t.Parallel()
	y := storetest.NewTenancy(t)
	s := storetest.OpenURL(t, y.URL)
	k, err := rollout.New(s).Keep(t.Context(), "mcp")
	require.NoError(t, err)
	t.Cleanup(func() { k.Close(t.Context()) })
	id, err := k.Begin(t.Context(), "eu")
	require.NoError(t, err)
	put := func(namespace, name string) int64 {
		y.Owner.Exec(`INSERT INTO mesh.virtual_services (namespace, name, hosts, http) VALUES ($1, $2, ARRAY[$2 || '.example'], '[{"directResponse": {"status": 200}}]')`, namespace, name)
		return y.Owner.Newest()
	}
	ours, theirs, silent, at := put("a", "ours"), put("b", "theirs"), put("b", "silent"), began()
	parts := []rollout.Part{{Namespace: "a", Concerned: 1}, {Namespace: "b", Concerned: 2, Ran: 1, Took: []uint64{1000}}}
	require.NoError(t, k.Report(t.Context(), id, rollout.Message{Number: 1, Revision: 1, Rollouts: []rollout.Rollout{
		{Revision: ours, After: ours - 1, Began: at, Parts: parts}, {Revision: theirs, After: ours, Began: at, Parts: parts}, {Revision: silent, After: theirs, Began: at, Parts: parts[1:]},
	}}))
	want := []string{fmt.Sprintf("%d t 1 0 0 1 0 |", ours), fmt.Sprintf("%d f 1 0 0 1 0 |", theirs)}
	lines := func(s storetest.Session) []string {
		all := rolled(s, at)
		return all[max(0, len(all)-3):]
	}
	tenant := y.Tenant("tenant")
	require.Equal(t, want, lines(tenant)[max(0, len(lines(tenant))-2):])
	require.Equal(t, []string{
		fmt.Sprintf("%d t 3 1 0 2 0 | 1 1 1", ours), fmt.Sprintf("%d t 3 1 0 2 0 | 1 1 1", theirs), fmt.Sprintf("%d t 2 1 0 1 0 | 1 1 1", silent),
	}, lines(y.Owner))
	require.Equal(t, []string{"a"}, storetest.Collect[string](tenant, "SELECT DISTINCT namespace FROM mesh.rollout_parts"))
	list, err := rollout.New(s).Latest(t.Context(), []string{"a"}, 0, 1)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, theirs, list[0].Revision, "as its server acts for it")
	require.Empty(t, list[0].Author)
	require.Equal(t, rollout.Counts{Concerned: 1, ToAnswer: 1}, rollout.Counts{Concerned: list[0].Concerned, ToAnswer: list[0].ToAnswer})
}
