package attack

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// attempt runs a statement that may be refused, in the attacker's transaction. A refusal does not
// end the transaction.
func attempt(t testing.TB, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), "SAVEPOINT attempt")
	require.NoError(t, err)
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		_, err = conn.Exec(t.Context(), "ROLLBACK TO attempt")
		require.NoError(t, err)
	}
}

// everything takes every lock that a session can get, in the strongest mode, and keeps it.
func everything(t testing.TB, conn *pgx.Conn) (end func()) {
	t.Helper()
	_, err := conn.Exec(t.Context(), "BEGIN")
	require.NoError(t, err)
	rows, err := conn.Query(t.Context(), "SELECT format('%I.%I', n.nspname, relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname IN ('mesh', 'mesh_internal') AND relkind IN ('r', 'v')")
	require.NoError(t, err)
	relations, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for _, relation := range relations {
		for _, mode := range []string{"ACCESS EXCLUSIVE", "ROW EXCLUSIVE"} {
			attempt(t, conn, fmt.Sprintf("LOCK TABLE %s IN %s MODE NOWAIT", relation, mode))
		}
		attempt(t, conn, fmt.Sprintf("SELECT FROM %s FOR UPDATE NOWAIT", relation))
	}
	attempt(t, conn, "SELECT pg_advisory_lock(1835365224, n) FROM generate_series(0, 9) n")
	attempt(t, conn, "SELECT mesh_internal.lock_numbering()")
	attempt(t, conn, "SET CONSTRAINTS ALL IMMEDIATE")
	attempt(t, conn, "INSERT INTO mesh.settings (namespace, name, value) VALUES ('evil', 'strict_references', 'on')")
	attempt(t, conn, `INSERT INTO mesh.service_entries (namespace, name, hosts, ports) VALUES ('evil', 'e', '{e.evil}', '[{"number": 80, "name": "http", "protocol": "HTTP"}]')`)
	attempt(t, conn, `INSERT INTO mesh.workload_groups (namespace, name, spec) VALUES ('evil', 'g', '{"template": {}}')`)
	return func() {
		_, err := conn.Exec(context.Background(), "ROLLBACK; SELECT pg_advisory_unlock_all()")
		require.NoError(t, err)
	}
}

// A tenant locks all that it can, for the whole test.
func TestATenantsLocksHoldNobodyUp(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := newBystander(m)
	evil := m.tenant("evil", "evil")
	m.sql("SELECT mesh.grant_namespace($1, 'shop', 'read')", evil.Config().User) // it may read what it would lock
	b.undisturbed(func() func() { return everything(t, evil) })
}

// A role that may connect, and nothing else, does the same.
func TestAStrangersLocksHoldNobodyUp(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := newBystander(m)
	stranger := m.tenant("stranger")
	b.undisturbed(func() func() { return everything(t, stranger) })
}

// When the queue of notifications is full none can be sent, and everything must go on. To fill it
// takes gigabytes, so the test tells the database that it is full.
func TestAFullQueueOfNotificationsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := newBystander(m)
	b.undisturbed(func() func() {
		m.sql("CREATE OR REPLACE FUNCTION mesh_internal.notification_queue_usage() RETURNS double precision LANGUAGE sql STABLE AS 'SELECT 0.9::double precision'")
		says(t, m.MCPServer.Log, "queue of notifications fills")
		return func() {
			m.sql("CREATE OR REPLACE FUNCTION mesh_internal.notification_queue_usage() RETURNS double precision LANGUAGE sql STABLE AS 'SELECT 0.0::double precision'")
			says(t, m.MCPServer.Log, "queue of notifications has emptied")
		}
	})
}

// Anybody may send notifications on the mesh's channels. A flood of them must be handled in few
// rounds.
func TestAFloodOfNotificationsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := newBystander(m)
	stranger := m.tenant("stranger")
	b.undisturbed(func() func() {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for n := 0; ctx.Err() == nil; n++ {
				_, _ = stranger.Exec(ctx, fmt.Sprintf("SELECT pg_notify('mesh', '%d'), pg_notify('mesh_servers', 'tokens'), pg_sleep(0.001)", n+1_000_000))
			}
		}()
		return func() { cancel(); <-done }
	})
}

// Changes of a tenant that wait for a lock of its own are given up, with an error that names who
// blocks them. No connection that others need waits with them.
func TestATenantThatWaitsForItselfHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := newBystander(m)
	evil := m.tenant("evil", "evil")
	token := m.token("evil", "write:evil")
	entry := func(host string) string {
		return "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: e, namespace: evil}\nspec: {hosts: [" + host + "], ports: [{number: 80, name: http, protocol: HTTP}]}\n"
	}
	said, err := m.clientOf(token, entry("a.evil"), "apply", "-f", "-")
	require.NoError(t, err, said)
	b.undisturbed(func() func() {
		_, err := evil.Exec(t.Context(), "BEGIN; UPDATE mesh.service_entries SET labels = '{\"a\": \"b\"}'")
		require.NoError(t, err)
		answers := make(chan string)
		for i := range 2 {
			go func() {
				said, _ := m.clientOf(token, entry(fmt.Sprintf("%d.evil", i)), "apply", "-f", "-")
				answers <- said
			}()
		}
		return func() {
			require.Contains(t, <-answers, "mcp-client blockers end")
			require.Contains(t, <-answers, evil.Config().User)
			_, err := evil.Exec(context.Background(), "ROLLBACK")
			require.NoError(t, err)
		}
	})
}

// The operator is told which session blocks others, and can end it.
func TestTheOperatorEndsABlockingSession(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	evil, err := pgx.Connect(t.Context(), m.login("evil", "evil"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = evil.Close(context.Background()) })
	_, err = evil.Exec(t.Context(), `INSERT INTO mesh.service_entries (namespace, name, hosts, ports) VALUES ('evil', 'e', '{e.evil}', '[{"number": 80, "name": "http", "protocol": "HTTP"}]')`)
	require.NoError(t, err)
	_, err = evil.Exec(t.Context(), "BEGIN; UPDATE mesh.service_entries SET labels = '{\"a\": \"b\"}'")
	require.NoError(t, err)

	waiting := make(chan error)
	go func() {
		_, err := m.owner.Exec(t.Context(), "DELETE FROM mesh.service_entries")
		waiting <- err
	}()
	says(t, m.MCPServer.Log, "holds up others")
	listed, err := m.Run(t.Context(), "mcp-server", "blockers", "--database", m.database)
	require.NoError(t, err, listed)
	require.Contains(t, listed, evil.Config().User)
	require.Contains(t, m.readyz(), "is in the way")
	out, err := m.Run(t.Context(), "mcp-server", "blockers", "--database", m.database, "--end", fmt.Sprint(evil.PgConn().PID()))
	require.NoError(t, err, out)
	require.NoError(t, <-waiting)
	out, err = m.Run(t.Context(), "mcp-server", "blockers", "--database", m.database, "--end", fmt.Sprint(m.owner.PgConn().PID()))
	require.Error(t, err)
	require.Contains(t, out, "nobody waits for the session")
}
