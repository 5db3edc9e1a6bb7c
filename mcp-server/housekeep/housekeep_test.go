package housekeep_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/mcp-server/housekeep"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/feed"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

// bundle is a database, psql on it, and the revisions committed to it.
type bundle struct {
	t       *testing.T
	url     string
	store   *store.Store
	conn    *pgx.Conn
	batches chan feed.Batch
}

func start(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, url: pgtest.New(t), batches: make(chan feed.Batch, 1000)}
	var err error
	b.conn, err = pgx.Connect(t.Context(), b.url)
	require.NoError(t, err)
	b.store = b.open()
	b.background(func(ctx context.Context) error {
		return storetest.Feed(b.t, b.store).Follow(ctx, feed.At(0), func(batch feed.Batch) error {
			b.batches <- batch
			return nil
		})
	})
	t.Cleanup(func() { _ = b.conn.Close(context.Background()) })
	return b
}

func (b *bundle) open() *store.Store {
	b.t.Helper()
	s, err := store.Open(b.t.Context(), b.url, store.Options{})
	require.NoError(b.t, err)
	b.t.Cleanup(s.Close)
	return s
}

// background runs a function until the test ends or stop is called.
func (b *bundle) background(run func(context.Context) error) (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = func() {
		if cancel != nil {
			cancel()
			require.ErrorIs(b.t, <-ended, context.Canceled)
			cancel = nil
		}
	}
	b.t.Cleanup(stop)
	return stop
}

// keeper runs a keeper, like another server. It gets no news, and polls at the given interval.
func (b *bundle) keeper(look time.Duration) (stop func(), metrics *prometheus.Registry) {
	b.t.Helper()
	metrics = prometheus.NewRegistry()
	k := housekeep.New(b.open(), nil, slog.New(slog.DiscardHandler), metrics, housekeep.Options{PollInterval: look, PruneInterval: look})
	return b.background(k.Run), metrics
}

func (b *bundle) sql(statement string, args ...any) {
	b.t.Helper()
	_, err := b.conn.Exec(b.t.Context(), statement, args...)
	require.NoError(b.t, err, statement)
}

func value[T any](b *bundle, sql string, args ...any) T {
	b.t.Helper()
	rows, err := b.conn.Query(b.t.Context(), sql, args...)
	require.NoError(b.t, err, sql)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(b.t, err, sql)
	return v
}

// put commits a change of one resource, to be confirmed unless within is empty.
func (b *bundle) put(name, host, within string) {
	b.t.Helper()
	b.sql("BEGIN")
	b.sql(`INSERT INTO mesh.resources (kind, name, spec) VALUES ('ServiceEntry', $1, jsonb_build_object('hosts', jsonb_build_array($2::text),
		'ports', '[{"number": 80, "name": "http", "protocol": "HTTP"}]'::jsonb, 'resolution', 'DNS'))
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`, name, host)
	if within != "" {
		b.sql("SELECT mesh.commit_confirmed($1::text::interval)", within)
	}
	b.sql("COMMIT")
}

// next waits for the next committed revision.
func (b *bundle) next() feed.Batch {
	b.t.Helper()
	select {
	case batch := <-b.batches:
		return batch
	case <-time.After(20 * time.Second):
		b.t.Fatal("no revision within 20 s")
		return feed.Batch{}
	}
}

func (b *bundle) state(revision int64) string {
	b.t.Helper()
	return value[string](b, "SELECT state FROM mesh.confirmations WHERE revision = $1", revision)
}

func TestUnconfirmedRevisionsAreReverted(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.put("x", "good.example", "")
	b.put("x", "bad.example", "50 milliseconds")
	_, metrics := b.keeper(time.Hour)
	b.next()
	b.next()

	revert := b.next()
	require.Equal(t, "mesh.commit_confirmed", revert.Author)
	require.Equal(t, "revert of revision 2: not confirmed within 50 milliseconds", revert.Message)
	require.Contains(t, string(revert.Changes[0].After.Spec), "good.example")
	require.Equal(t, "reverted", b.state(2))
	require.Equal(t, int64(3), value[int64](b, "SELECT reverted_by FROM mesh.confirmations"))
	require.Eventually(t, func() bool { return gauge(t, metrics, "pgmesh_mcp_server_confirmations_waiting") == 0 }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, 1, gauge(t, metrics, "pgmesh_mcp_server_unconfirmed_revisions_total"))
}

func TestNewsWakesTheKeeper(t *testing.T) {
	t.Parallel()
	b := start(t)
	news := make(chan struct{}, 1)
	k := housekeep.New(b.open(), news, slog.New(slog.DiscardHandler), prometheus.NewRegistry(), housekeep.Options{PollInterval: time.Hour, PruneInterval: time.Hour})
	b.background(k.Run)
	for i := range int64(3) {
		b.put(fmt.Sprintf("x-%d", i), "bad.example", "1 millisecond")
		b.next()
		news <- struct{}{}
		require.Equal(t, 2*i+2, b.next().Revision)
	}
}

func TestConfirmedInTime(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.put("x", "new.example", "1 hour")
	b.sql("SELECT mesh.confirm()")
	b.put("y", "new.example", "1 millisecond")
	b.keeper(time.Hour)
	require.Equal(t, int64(1), b.next().Revision)
	require.Equal(t, int64(2), b.next().Revision)
	require.Equal(t, "revert of revision 2: not confirmed within 1 millisecond", b.next().Message)
	require.Equal(t, "confirmed", b.state(1))
}

// Servers that race, die and come back revert each revision once.
func TestServersTakeTurns(t *testing.T) {
	t.Parallel()
	const changes = 25
	b := start(t)
	var stops []func()
	for range 3 {
		stop, _ := b.keeper(20 * time.Millisecond)
		stops = append(stops, stop)
	}
	for i := range changes {
		b.put(fmt.Sprintf("x-%d", i), "bad.example", "20 milliseconds")
		if i%5 == 0 {
			stops[i%3]()
			stops[i%3], _ = b.keeper(20 * time.Millisecond)
		}
	}
	seen := map[string]int{}
	for range 2 * changes {
		seen[b.next().Message]++
	}
	require.Equal(t, changes, seen[""])
	for i := range changes {
		require.LessOrEqual(t, seen[fmt.Sprintf("revert of revision %d: not confirmed within 20 milliseconds", i+1)], 1)
	}
	require.Equal(t, changes, value[int](b, "SELECT count(*) FROM mesh.confirmations WHERE state = 'reverted'"))
	require.Zero(t, value[int](b, "SELECT count(*) FROM mesh.resources"))
	require.Equal(t, int64(2*changes), value[int64](b, "SELECT max(revision) FROM mesh.revisions"))
}

// Whoever confirms locks the row. A server that polls meanwhile tries again later.
func TestALateConfirmationThatIsRolledBack(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.put("x", "bad.example", "300 milliseconds")
	b.sql("BEGIN")
	b.sql("SELECT mesh.confirm(1)")
	b.keeper(10 * time.Millisecond)
	b.sql("SELECT pg_sleep_until(deadline) FROM mesh.confirmations")
	b.sql("SELECT mesh_internal.chores()")
	b.sql("ROLLBACK")
	b.next()
	require.Equal(t, int64(2), b.next().Revision)
	require.Equal(t, "reverted", b.state(1))
}

func TestHistoryIsPruned(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.sql("INSERT INTO mesh.settings (name, value) VALUES ('history_max_revisions', '10')")
	for i := range 40 {
		b.put("x", fmt.Sprintf("h%d.example", i), "")
		b.next() // who has not read it yet could not go on
	}
	_, metrics := b.keeper(10 * time.Millisecond)
	require.Eventually(t, func() bool {
		return value[int64](b, "SELECT min(revision) FROM mesh.revisions") == 31
	}, 10*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { return gauge(t, metrics, "pgmesh_mcp_server_oldest_revision") == 31 }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, 30, gauge(t, metrics, "pgmesh_mcp_server_pruned_revisions_total"))
	require.Equal(t, 10, value[int](b, "SELECT count(*) FROM mesh_internal.changes"))
}

func TestTheRecordOfCertificatesIsPruned(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.sql(`INSERT INTO mesh.certificates (id, at, server, refusal, detail)
		SELECT gen_random_uuid(), now() - n * interval '1 day', 'discovery', 'token_used', 'used' FROM generate_series(80, 99) n`)
	_, metrics := b.keeper(10 * time.Millisecond)
	require.Eventually(t, func() bool { return value[int](b, "SELECT count(*) FROM mesh.certificates") == 10 }, 10*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { return gauge(t, metrics, "pgmesh_mcp_server_pruned_certificates_total") == 10 }, 10*time.Second, 10*time.Millisecond)
}

// gauge returns the value of a gauge.
func gauge(t *testing.T, metrics *prometheus.Registry, name string) int {
	t.Helper()
	families, err := metrics.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return int(f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// Rows that come around the triggers, before or while the server runs, become revisions that all
// clients are sent.
func TestRowsThatCameAroundTheTriggersAreAdopted(t *testing.T) {
	t.Parallel()
	b := start(t)
	stray := func(name string) {
		b.sql("SET session_replication_role = replica")
		b.sql(`INSERT INTO mesh.resources (api_group, kind, name, spec) VALUES ('networking.istio.io', 'ServiceEntry', $1, '{"hosts": ["a.example"], "resolution": "DNS"}')`, name)
		b.sql("RESET session_replication_role")
	}
	stray("before")
	metrics := prometheus.NewRegistry()
	k := housekeep.New(b.open(), nil, slog.New(slog.DiscardHandler), metrics, housekeep.Options{PollInterval: 50 * time.Millisecond, AdoptInterval: 50 * time.Millisecond})
	b.background(k.Run)
	for revision, name := range []string{"before", "while"} {
		adopted := b.next()
		require.Equal(t, int64(revision+1), adopted.Revision)
		require.Equal(t, "mesh.adopt", adopted.Author)
		require.Equal(t, name, adopted.Changes[0].Key.Name)
		require.Nil(t, adopted.Changes[0].Before)
		if name == "before" {
			stray("while")
		}
	}
}
