package feed_test

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/mcp-server/feed"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
	"github.com/pgmesh/pgmesh/store"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

const (
	virtualServices = "networking.istio.io/v1/VirtualService"
	gateways        = "networking.istio.io/v1/Gateway"
)

// bundle is a publisher that follows its own database, and psql on that database.
type bundle struct {
	t         *testing.T
	publisher *publish.Publisher
	news      *served.Subscriber
	conn      *pgx.Conn
}

func start(t *testing.T) *bundle {
	t.Helper()
	database := pgtest.New(t)
	s, err := store.Open(t.Context(), database, store.Options{})
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	metrics := prometheus.NewRegistry()
	p := publish.New(metrics)
	f := feed.New(storetest.Feed(t, s), p, seal.None, slog.New(slog.DiscardHandler), metrics)
	b := &bundle{t: t, publisher: p, news: p.Subscribe(), conn: conn}

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
		b.news.Close()
		require.NoError(t, conn.Close(context.Background()))
		s.Close()
	})
	return b
}

func (b *bundle) sql(statement string, args ...any) {
	b.t.Helper()
	_, err := b.conn.Exec(b.t.Context(), statement, args...)
	require.NoError(b.t, err)
}

func (b *bundle) write(name, host string) {
	b.t.Helper()
	b.sql(`INSERT INTO mesh.resources (kind, namespace, name, spec)
		VALUES ('VirtualService', 'default', $1, jsonb_build_object('hosts', jsonb_build_array($2::text), 'http', '[{"route": [{"destination": {"host": "a"}}]}]'::jsonb))
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`, name, host)
}

// at waits for the snapshot of a revision.
func (b *bundle) at(revision int64) *served.Snapshot {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(b.t, b.publisher.Served(ctx, revision))
	require.Equal(b.t, strconv.FormatInt(revision, 10), b.news.Snapshot().Revision)
	return b.news.Snapshot()
}

func TestARevisionIsASnapshotThatEndsWithItsMark(t *testing.T) {
	t.Parallel()
	b := start(t)
	empty, begun := b.at(0), time.Now()
	require.Zero(t, empty.Sets[virtualServices].Len())

	b.write("a", "a.example")
	snap := b.at(1)

	require.NotNil(t, snap.Sets[virtualServices].Get("default/a"))
	end, told := snap.Sets[mcpv1.BatchTypeURL].Get(mcpv1.BatchName), &mcpv1.Batch{}
	require.Regexp(t, `^1\.`, end.Version)
	require.NoError(t, end.Body.UnmarshalTo(told))
	require.Equal(t, int64(1), told.GetRevision())
	require.WithinRange(t, told.GetCommitted().AsTime(), begun, time.Now(), "by the clock of a database that is on this machine")
	require.Same(t, empty.Sets[gateways], snap.Sets[gateways], "what a revision does not touch is shared")
}

func TestAVersionChangesExactlyWithTheContent(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.write("a", "a.example")
	first := b.at(1).Sets[virtualServices].Get("default/a")

	b.write("a", "b.example")
	second := b.at(2).Sets[virtualServices].Get("default/a")
	b.write("a", "a.example")
	third := b.at(3).Sets[virtualServices].Get("default/a")

	require.NotEqual(t, first.Version, second.Version)
	require.Equal(t, first.Version, third.Version)
}

// The row was never validated, as after a restore of an old dump.
func TestUndecodableRowsDoNotStopTheFeed(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.write("a", "a.example")
	b.write("b", "b.example")
	good := b.at(2).Sets[virtualServices].Get("default/a")

	b.sql("CREATE OR REPLACE FUNCTION mesh_internal.refuse_unsound(written mesh_internal.changes[]) RETURNS void LANGUAGE plpgsql STABLE AS $$ BEGIN END $$")
	b.sql("CREATE OR REPLACE FUNCTION mesh_internal.check_changes(written mesh_internal.changes[]) RETURNS void LANGUAGE plpgsql STABLE AS $$ BEGIN END $$")
	b.sql(`UPDATE mesh.resources SET spec = '{"hosts": 7}' WHERE name = 'a'`)
	require.Same(t, good, b.at(3).Sets[virtualServices].Get("default/a"), "the last good state stays in force")

	b.write("b", "c.example")
	require.Contains(t, string(b.at(4).Sets[virtualServices].Get("default/b").Body.GetValue()), "c.example")
}

// The row came around the triggers, decodes, and breaks rules. The feed sees it when it loads the
// store again.
func TestRowsThatBreakRulesDoNotReplaceGoodOnes(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.write("a", "a.example")
	good := b.at(1).Sets[virtualServices].Get("default/a")

	b.sql("ALTER TABLE mesh.resources DISABLE TRIGGER USER")
	b.sql(`UPDATE mesh.resources SET rules = 0, spec = '{"hosts": ["*"], "http": [{"redirect": {"uri": "/"}}]}' WHERE name = 'a'`)
	b.sql(`INSERT INTO mesh.resources (api_group, kind, name, spec) VALUES ('networking.istio.io', 'VirtualService', 'b', '{"hosts": ["*"], "http": [{"redirect": {"uri": "/"}}]}')`)
	b.sql("ALTER TABLE mesh.resources ENABLE TRIGGER USER")
	b.sql("UPDATE mesh_internal.transactions SET revision = revision + 5") // no follower knows these, so all is read
	b.write("c", "c.example")
	now := b.at(7).Sets[virtualServices]
	require.Same(t, good, now.Get("default/a"), "the last good state stays in force")
	require.NotNil(t, now.Get("default/b"), "there is none, and this can be decoded")
}
