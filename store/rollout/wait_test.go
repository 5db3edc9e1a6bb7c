package rollout_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// waiting calls mesh.wait in a transaction of another session, and returns when it waits.
func (b *bench) waiting(sql string) (answer <-chan string) {
	b.t.Helper()
	s := storetest.Connect(b.t, b.db.Conn.Config().ConnString())
	s.Exec("BEGIN")
	pid, done := s.Conn.PgConn().PID(), make(chan string, 1)
	go func() {
		var n string
		if err := s.Conn.QueryRow(context.Background(), sql).Scan(&n); err != nil {
			n = err.Error()
		}
		done <- n
	}()
	poll.Within(b.t, 20*time.Second, func(context.Context) error {
		if !storetest.Value[bool](b.db, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep')", pid) {
			return errors.New("it does not wait")
		}
		return nil
	})
	return done
}

func TestWaitReturnsWhenProxiesRunARevision(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.Zero(t, storetest.Value[int64](b.db, "SELECT mesh.wait()"), "nobody is there")
	b.db.Put("a", "b")
	b.db.Put("a", "c")
	b.tells(1, []rollout.Proxy{of(1, "cart"), of(2, "pay"), of(3, "web")})
	require.Equal(t, int64(3), storetest.Value[int64](b.db, "SELECT mesh.wait(1)"))

	all := b.waiting("SELECT mesh.wait(timeout => '1 min')::text")
	some := b.waiting("SELECT mesh.wait(2, 0.5, '1 min')::text")
	none := b.waiting("SELECT mesh.wait(2, 0.1, '1 min')::text")
	b.tells(2, []rollout.Proxy{{Stream: 1, State: rollout.Sending, Sent: 2, Runs: 1}, {Stream: 2, State: rollout.Sending, Sent: 2, Runs: 1}})
	require.Equal(t, "1", <-none)
	b.tells(2, []rollout.Proxy{{Stream: 1, State: rollout.Synced}})
	require.Equal(t, "2", <-some)
	require.Equal(t, []string{"cart", "web"}, storetest.Collect[string](b.db, "SELECT proxy FROM mesh.runs_at(2) ORDER BY 1"))
	b.tells(2, nil, 2)
	require.Equal(t, "2", <-all, "who has gone is not waited for")
	require.Equal(t, []string{"cart", "web"}, storetest.Collect[string](b.db, "SELECT proxy FROM mesh.runs_at(2) ORDER BY 1"))
}

// All are away where a server has died, until their discoveries have found another.
func TestWaitHoldsOutUntilProxiesAreBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.db.Put("a", "b")
	b.tells(1, []rollout.Proxy{of(1, "cart")})
	b.keeper.Close(t.Context())
	answer := b.waiting("SELECT mesh.wait(1, timeout => '1 min')::text")
	b.keeper = b.keep("other")
	b.begin()
	b.tells(1, []rollout.Proxy{of(1, "cart")})
	require.Equal(t, "1", <-answer)
	b.keeper.Close(t.Context())
	refused := b.db.Refused("SELECT mesh.wait(1, timeout => '0')")
	require.Equal(t, "MS009", refused.Code)
	require.Equal(t, "no proxy is connected, and mesh.proxies tells of 1 that are away", refused.Hint)
}

func TestWaitTellsWhoIsBehind(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.db.Put("a", "b")
	b.db.Put("a", "c")
	b.tells(1, []rollout.Proxy{
		of(1, "a"), of(2, "b\nERROR: x"),
		{Stream: 3, State: rollout.Refused, Sent: 2, Runs: 1, Refused: 2, Description: of(3, "c").Description},
		{Stream: 4, State: rollout.Sending, Sent: 2, Description: of(4, "d").Description},
		{Stream: 5, State: rollout.Silent, Sent: 2, Runs: 1, Description: of(5, "e").Description},
		{Stream: 6, State: rollout.Sending, Sent: 1, Description: of(6, "f").Description},
		{Stream: 7, State: rollout.Refused, Sent: 2, Runs: 2, Description: of(7, "g").Description},
	})
	refused := b.db.Refused("SELECT mesh.wait(2, timeout => '60 ms')")
	require.Equal(t, "MS009", refused.Code)
	since := storetest.Value[string](b.db, "SELECT changed::text FROM mesh.proxies WHERE proxy = 'e'")
	require.Equal(t, "revision 2 is run by 1 of 7 connected proxies after 00:00:00.06: shop/c runs 1 and refuses 2 of its resources; shop/e runs 1 and has not answered since "+since+
		"; shop/d runs nothing yet and is being sent 2; shop/f runs nothing yet and is being sent 1; shop/a runs 1 and is in step with its discovery, which is behind; and 1 more", refused.Message)
	require.Equal(t, "mesh.proxies has all of them", refused.Hint)
	b.tells(1, nil, 1, 3, 4, 5, 6)
	require.Contains(t, b.db.Refused("SELECT mesh.wait(2, timeout => '0')").Message, "shop/b ERROR: x runs 1 and is")
}

// It refuses where it would wait for what cannot come.
func TestWaitRefusesWhatWouldBeInVain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.db.Put("a", "b")
	for _, test := range []struct{ begin, call, code, hint string }{
		{"BEGIN; DELETE FROM mesh.virtual_services", "mesh.wait()", "25000", "COMMIT, then call mesh.wait"},
		{"BEGIN; SELECT mesh.begin_change('x')", "mesh.wait()", "25000", "COMMIT, then call mesh.wait"},
		{"BEGIN; INSERT INTO mesh.secrets (name, data) VALUES ('s', '{}')", "mesh.wait()", "25000", "COMMIT, then call mesh.wait"},
		{"BEGIN ISOLATION LEVEL REPEATABLE READ", "mesh.wait()", "25000", "call mesh.wait outside of a transaction, or in one that is READ COMMITTED"},
		{"BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY", "mesh.wait()", "25000", "call mesh.wait outside of a transaction, or in one that is READ COMMITTED"},
		{"BEGIN", "mesh.wait(2)", "MS004", "the newest revision is 1"},
		{"BEGIN", "mesh.wait(1, 1.1)", "22023", "write a number from 0 to 1"},
		{"BEGIN", "mesh.wait(1, NULL)", "22023", "write a number from 0 to 1"},
		{"BEGIN", "mesh.wait(1, 'NaN')", "22023", "write a number from 0 to 1"},
		{"BEGIN", "mesh.wait(1, 1, '-1 s')", "22023", "write an interval of one hour at most"},
		{"BEGIN", "mesh.wait(1, 1, '2 h')", "22023", "write an interval of one hour at most"},
		{"BEGIN", "mesh.wait(1, 1, NULL)", "22023", "write an interval of one hour at most"},
	} {
		b.db.Exec(test.begin)
		refused := b.db.Refused("SELECT " + test.call)
		require.Equal(t, []string{test.code, test.hint}, []string{refused.Code, refused.Hint}, "%s; %s", test.begin, test.call)
		b.db.Exec("ROLLBACK")
	}
	require.Zero(t, storetest.Value[int64](b.db, "SELECT mesh.wait()"))
}

// Tenants see the proxies of their namespaces, wait for those alone, and have no hold on any.
func TestProxiesAreOfTheirNamespace(t *testing.T) {
	t.Parallel()
	y := storetest.NewTenancy(t)
	s := storetest.OpenURL(t, y.URL)
	k, err := rollout.New(s).Keep(t.Context(), "mcp")
	require.NoError(t, err)
	t.Cleanup(func() { k.Close(t.Context()) })
	id, err := k.Begin(t.Context(), "eu")
	require.NoError(t, err)
	mine, others := of(1, "mine"), of(2, "others")
	mine.Namespace, others.Namespace = "a", "b"
	others.State, others.Runs = rollout.Silent, 0
	y.Owner.Exec(`INSERT INTO mesh.virtual_services (namespace, name, hosts, http) SELECT n, 'seen', ARRAY['seen-' || n || '.example'], '[{"directResponse": {"status": 200}}]' FROM unnest('{a,b}'::text[]) n`)
	newest, seen := y.Owner.Newest(), rollout.Resource{Group: "networking.istio.io", Kind: "VirtualService", Namespace: "a", Name: "seen"}
	theirs := seen
	theirs.Namespace = "b"
	mine.Refusals = []rollout.Refusal{{Resource: "l", Reason: "r", Sources: []rollout.Source{{Resource: theirs}, {Resource: seen}}}}
	others.Refusals = mine.Refusals
	require.NoError(t, k.Report(t.Context(), id, rollout.Message{
		Number: 1, Revision: newest, Proxies: []rollout.Proxy{mine, others}, Audiences: []rollout.Audience{{Resource: seen, Everyone: true}, {Resource: theirs, Everyone: true}},
	}))

	tenant := y.Tenant("tenant")
	const names = "SELECT proxy FROM mesh.proxies ORDER BY 1"
	require.Equal(t, []string{"mine", "others"}, storetest.Collect[string](y.Owner, names))
	require.Equal(t, []string{"mine"}, storetest.Collect[string](tenant, names))
	require.Equal(t, []string{"mine"}, storetest.Collect[string](tenant, "SELECT proxy FROM mesh.runs_at(0)"))
	const refused = "SELECT concat_ws(' ', proxy, source_namespace, jsonb_array_length(sources)) FROM mesh.refusals ORDER BY proxy"
	require.Equal(t, []string{"mine a 1"}, storetest.Collect[string](tenant, refused))
	require.Len(t, storetest.Collect[string](y.Owner, refused), 2)
	const statuses = "SELECT concat_ws(' ', namespace, name, concerned, running, refusing) FROM mesh.resource_status WHERE name = 'seen' ORDER BY 1"
	require.Equal(t, []string{"a seen 1 0 1"}, storetest.Collect[string](tenant, statuses))
	require.Equal(t, []string{"a seen 2 0 2", "b seen 2 0 2"}, storetest.Collect[string](y.Owner, statuses))
	require.Contains(t, tenant.Refused("SELECT mesh.runs('vs', 'b', 'seen')").Message, "there is no VirtualService b/seen that you can read")
	require.Contains(t, tenant.Refused("SELECT mesh.status_of('vs', 'b', 'seen')").Message, "there is no VirtualService b/seen that you can read")
	require.Equal(t, int64(1), storetest.Value[int64](tenant, "SELECT mesh.wait(timeout => '0')"))
	require.Contains(t, y.Owner.Refused("SELECT mesh.wait(timeout => '0')").Message, "b/others runs nothing yet")

	for _, sql := range []string{
		"UPDATE mesh.proxies SET state = 'synced'", "DELETE FROM mesh.proxies", "SELECT FROM mesh.proxies FOR UPDATE", "LOCK TABLE mesh.proxies IN SHARE MODE",
		"TABLE mesh_internal.report_keepers", "TABLE mesh_internal.reports", "TABLE mesh_internal.reported_proxies",
		"SELECT FROM mesh_internal.reports FOR KEY SHARE", "LOCK TABLE mesh_internal.reports IN ACCESS SHARE MODE", "DELETE FROM mesh_internal.reported_proxies",
		"SELECT mesh_internal.keep_reports('x')", "SELECT mesh_internal.keeps_reports(1)", "SELECT mesh_internal.begin_report(1, 'x')",
		"SELECT mesh_internal.take_report(1, 1, 1, 1, '[]', '{}')", "SELECT mesh_internal.take_proxies(1, '[]', '{}')", "SELECT mesh_internal.take_rollouts(1, 1, '[]')",
		"SELECT mesh_internal.take_audiences(1, '[]')", "SELECT mesh_internal.trim_rollouts(1)", "SELECT mesh_internal.sweep_rollouts()",
		"TABLE mesh_internal.report_rollouts", "TABLE mesh_internal.report_audiences", "TABLE mesh_internal.report_problems", "TABLE mesh_internal.report_times",
		"TABLE mesh_internal.known_proxies", "TABLE mesh_internal.rollout_shares", "TABLE mesh_internal.every_problem", "LOCK TABLE mesh.rollouts IN SHARE MODE", "DELETE FROM mesh.refusals", "SELECT mesh_internal.end_reports(1)", "SELECT mesh_internal.sweep_reports('0')",
	} {
		tenant.Exec("BEGIN")
		_, err := tenant.Conn.Exec(t.Context(), sql)
		tenant.Exec("ROLLBACK")
		pg, ok := errors.AsType[*pgconn.PgError](err)
		require.True(t, ok, sql)
		require.Contains(t, []string{"42501", "55000", "0A000"}, pg.Code, sql)
	}
	role := y.Role("server")
	y.Owner.Exec("SELECT mesh.grant_server('" + role + "')")
	server := y.As(role)
	for _, asked := range []string{
		"mesh_internal.known_proxies", "mesh.refusals", "mesh_internal.latest_rollouts(0, 1)", "mesh_internal.statuses_of(names => '{seen}')", "mesh_internal.chosen_resources(NULL, '{a}', '{seen}')",
		"mesh_internal.runners_of('VirtualService', 'networking.istio.io', 'a', 'seen')",
	} {
		require.NotZero(t, storetest.Value[int64](server, "SELECT count(*) FROM "+asked), asked)
	}
	require.Equal(t, int64(0), storetest.Value[int64](server, "SELECT mesh_internal.sweep_reports('0')"))
	kept := storetest.Value[int](server, "SELECT mesh_internal.keep_reports('x')")
	require.True(t, storetest.Value[bool](server, "SELECT mesh_internal.keeps_reports($1)", kept))
}
