package examine_test

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
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/mcp-server/examine"
	"github.com/pgmesh/pgmesh/mcp-server/feed"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/store"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

// start runs a number of servers that examine one database.
func start(t *testing.T, servers int) *pgx.Conn {
	t.Helper()
	database := pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var g errgroup.Group
	for range servers {
		s, err := store.Open(t.Context(), database, store.Options{})
		require.NoError(t, err)
		metrics := prometheus.NewRegistry()
		e := examine.New(s, slog.New(slog.DiscardHandler))
		f := feed.New(storetest.Feed(t, s), publish.New(metrics), seal.None, slog.New(slog.DiscardHandler), metrics)
		f.See = e.See
		g.Go(func() error { return f.Run(ctx) })
		g.Go(func() error { return e.Run(ctx) })
		t.Cleanup(s.Close)
	}
	t.Cleanup(func() {
		stop()
		require.ErrorIs(t, g.Wait(), context.Canceled)
		require.NoError(t, conn.Close(context.Background()))
	})
	return conn
}

func write(t *testing.T, conn *pgx.Conn, spec string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), `INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('EnvoyFilter', 'shop', 'limits', $1)
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`, spec)
	require.NoError(t, err)
}

func problems(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), `SELECT severity || ' ' || code || ' ' || kind || ' ' || namespace || '/' || name || ': ' || path || ': ' || message || coalesce(' (' || hint || ')', '')
		FROM mesh.problems WHERE code LIKE '%patch' ORDER BY path`)
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return list
}

const broken = `{"configPatches": [
	{"applyTo": "CLUSTER", "patch": {"operation": "MERGE", "value": {"connect_timeout": "soon"}}},
	{"applyTo": "CLUSTER", "patch": {"operation": "MERGE", "value": {"conect_timeout": "1s"}}},
	{"applyTo": "ROUTE_CONFIGURATION", "patch": {"operation": "REMOVE"}}]}`

func TestInvalidPatchesAreProblems(t *testing.T) {
	t.Parallel()
	conn := start(t, 2)

	write(t, conn, broken)
	require.Eventually(t, func() bool { return len(problems(t, conn)) > 0 }, 20*time.Second, 5*time.Millisecond)
	require.Equal(t, []string{
		`error invalid-patch EnvoyFilter shop/limits: spec.configPatches[0].patch.value.connect_timeout: invalid google.protobuf.Duration value "soon"`,
		`warning unknown-in-patch EnvoyFilter shop/limits: spec.configPatches[1].patch.value.conect_timeout: unknown field "conect_timeout" (did you mean "connect_timeout"?)`,
		`warning idle-patch EnvoyFilter shop/limits: spec.configPatches[2].patch.operation: REMOVE does nothing to a ROUTE_CONFIGURATION (operations that do: MERGE, MERGE_AND_REPLACE_LIST)`,
	}, problems(t, conn))

	write(t, conn, `{"configPatches": [{"applyTo": "CLUSTER", "patch": {"operation": "MERGE", "value": {"connect_timeout": "1s"}}}]}`)
	require.Empty(t, problems(t, conn), "what was found of a revision before counts no more, whoever has looked")
}

// A role that may read one namespace sees only that namespace's findings.
func TestFindingsAreOnlyForReadersOfTheResource(t *testing.T) {
	t.Parallel()
	conn := start(t, 1)
	write(t, conn, broken)
	require.Eventually(t, func() bool { return len(problems(t, conn)) > 0 }, 20*time.Second, 5*time.Millisecond)
	count := func(namespace string) (n int) {
		role := fmt.Sprintf("examine_%s_%d", namespace, time.Now().UnixNano())
		run := func(statement string) {
			_, err := conn.Exec(t.Context(), fmt.Sprintf(statement, role, namespace))
			require.NoError(t, err)
		}
		run("CREATE ROLE %[1]s; SELECT mesh.grant_namespace('%[1]s', '%[2]s', 'read'); SET ROLE %[1]s")
		n = len(problems(t, conn))
		run("RESET ROLE; SELECT mesh.revoke_namespace('%[1]s', '%[2]s'); DROP ROLE %[1]s")
		return n
	}
	require.Equal(t, 3, count("shop"))
	require.Zero(t, count("elsewhere"))
}

// The database accepts expressions that Envoy's RE2 does not.
func TestAnExpressionThatEnvoyRefusesIsAProblem(t *testing.T) {
	t.Parallel()
	conn := start(t, 2)
	route := func(expression string) {
		_, err := conn.Exec(t.Context(), `INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', 'shop', 'web',
			jsonb_build_object('hosts', '["web.shop"]'::jsonb, 'http', jsonb_build_array(jsonb_build_object(
				'match', jsonb_build_array(jsonb_build_object('uri', jsonb_build_object('regex', $1::text))), 'directResponse', '{"status": 200}'::jsonb))))
			ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`, expression)
		require.NoError(t, err)
	}
	found := func() (list []string) {
		rows, err := conn.Query(t.Context(), "SELECT severity || ' ' || path || ' ' || message FROM mesh.problems WHERE code = 'invalid-regex'")
		require.NoError(t, err)
		list, err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return list
	}
	route(`\x{1F600}`)
	require.Eventually(t, func() bool { return len(found()) > 0 }, 20*time.Second, 5*time.Millisecond)
	require.Equal(t, []string{
		`error spec.http[0].match[0].uri.regex the regular expression "\\x{1F600}" is none that Envoy can read: \x{1F600} is no byte, which is what it compares`,
	}, found())
	route(`/a+`)
	require.Empty(t, found())
}
