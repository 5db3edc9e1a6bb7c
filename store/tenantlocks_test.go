package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// lockable lists the tables and views of the schema.
const lockable = `SELECT oid::regclass::text FROM pg_class WHERE relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND relkind IN ('r', 'v') ORDER BY 1`

// tableLocksOf lists which tables a session has locks on that conflict with what servers do.
const tableLocksOf = `SELECT format('%s %s', l.relation::regclass, l.mode) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
	WHERE l.pid = $1 AND c.relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND c.relkind = 'r' AND l.mode <> 'AccessShareLock' ORDER BY 1`

// Whatever a tenant locks, it locks no table: not even through the views that it may write to.
func TestTenantsCannotLockTables(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	tenant := y.tenant("tenant", [2]string{"b", "read"})
	pid := value[int](tenant, "SELECT pg_backend_pid()")
	relations := collect[string](y.owner, lockable)
	require.Greater(t, len(relations), 60)
	for _, relation := range relations {
		for _, mode := range []string{"ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE", "SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE"} {
			tenant.Exec("BEGIN")
			_, _ = tenant.Conn.Exec(t.Context(), fmt.Sprintf("LOCK TABLE %s IN %s MODE NOWAIT", relation, mode))
			require.Empty(t, collect[string](y.owner, tableLocksOf, pid), "LOCK TABLE %s IN %s MODE", relation, mode)
			tenant.Exec("ROLLBACK")
		}
	}
}

// Nor does it lock rows of namespaces that it may only read.
func TestTenantsCannotLockRowsOfOthers(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	y.owner.Exec("INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', 'b', 'y', $1)", virtualService("b"))
	y.owner.Exec("INSERT INTO mesh.secrets (namespace, name) VALUES ('b', 'y')")
	tenant := y.tenant("tenant", [2]string{"b", "read"})
	y.owner.Exec("SELECT mesh.grant_secrets($1, 'a', 'write'), mesh.grant_secrets($1, 'b', 'read')", tenant.Conn.Config().User)
	for _, strength := range []string{"UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"} {
		for _, relation := range collect[string](y.owner, lockable) {
			tenant.Exec("BEGIN")
			_, _ = tenant.Conn.Exec(t.Context(), fmt.Sprintf("SELECT FROM %s FOR %s", relation, strength))
			y.owner.Exec("BEGIN; SET LOCAL lock_timeout = '1ms'")
			for _, table := range []string{"resources", "secrets"} {
				y.owner.Exec(fmt.Sprintf("SELECT FROM mesh.%s WHERE namespace = 'b' FOR UPDATE", table))
			}
			y.owner.Exec("ROLLBACK")
			tenant.Exec("ROLLBACK")
		}
	}
}

// Nothing of a tenant's runs, or waits, once its transaction holds the lock that all other commits
// need.
func TestTenantsDoNothingWhileOthersWait(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	tenant := y.tenant("tenant")
	change := "UPDATE mesh.virtual_services SET labels = jsonb_build_object('n', txid_current()::text)"
	tenant.Exec(`CREATE TEMP TABLE slow (x int);
		CREATE FUNCTION pg_temp.sleep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3600); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER sleep AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pg_temp.sleep();
		CREATE TEMP TABLE late (x int UNIQUE DEFERRABLE INITIALLY DEFERRED);
		CREATE TEMP TABLE plain (x int PRIMARY KEY)`)
	for what, sql := range map[string]string{
		"the table slow, which has a deferrable trigger": "INSERT INTO slow VALUES (1)",
		"the table late, which has a deferrable trigger": "INSERT INTO late VALUES (1)",
		"the cursor slow, which is WITH HOLD":            "DECLARE slow CURSOR WITH HOLD FOR SELECT pg_sleep(3600)",
	} {
		tenant.Exec("BEGIN")
		tenant.Exec(change)
		tenant.Exec(sql)
		refused := tenant.Refused("COMMIT")
		require.Contains(t, refused.Message, what)
		require.Equal(t, "use two transactions", refused.Hint)
	}
	tenant.Exec("BEGIN; INSERT INTO plain VALUES (1); " + change + "; COMMIT")
	for _, sql := range []string{"SELECT mesh_internal.lock_numbering()", "DO 'BEGIN LOCK TABLE mesh_internal.numbering; END'", "SELECT mesh_internal.examine_references(1, false)"} {
		require.Equal(t, "42501", tenant.Refused(sql).Code, sql)
	}

	// A transaction that has its constraints checked early does not have others wait until it ends.
	tenant.Exec("INSERT INTO mesh.settings (namespace, name, value) VALUES ('a', 'strict_references', 'on')")
	tenant.Exec("BEGIN; SET CONSTRAINTS ALL IMMEDIATE")
	tenant.Exec(change)
	tenant.Exec("UPDATE mesh.virtual_services SET hosts = '{other}'")
	y.owner.Exec("SET statement_timeout = '10s'")
	y.owner.Put("z", "c")
	tenant.Exec("ROLLBACK")
}

// Advisory locks are anybody's who may connect, and nobody waits for them.
func TestAdvisoryLocksHoldNobodyUp(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	stranger := y.as(y.role("stranger"))
	stranger.Exec("SELECT pg_advisory_lock(1835365224, n) FROM generate_series(0, 9) n")
	stranger.Exec("SELECT pg_advisory_lock(hashtextextended('a/x', 1835365224)), pg_advisory_lock(hashtextextended('mesh.sinks sink:1', 0))")
	y.owner.Exec("SET statement_timeout = '10s'")
	y.owner.Put("z", "c")
	y.owner.Exec("SELECT mesh_internal.lock_workload_groups('{a}', '{x}')")
	require.True(t, value[bool](y.owner, "SELECT mesh_internal.take_sink('sink:1')"))
}
