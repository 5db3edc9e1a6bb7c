package store_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// pending lists what the transaction of the session is about to commit, and told what it would be
// told.
func (s session) pending() []string {
	s.T.Helper()
	return collect[string](s, `SELECT concat_ws(' ', operation, kind, namespace || '/' || name, nullif(path, ''),
		CASE WHEN path <> '' THEN coalesce(before::text, '-') || ' -> ' || coalesce(after::text, '-') END) FROM mesh.pending()`)
}

func (s session) told() []string {
	s.T.Helper()
	return collect[string](s, `SELECT concat_ws(' ', CASE WHEN refused THEN 'refused' ELSE 'told' END, severity, code, kind, namespace || '/' || name, nullif(path, '')) FROM mesh.pending_problems()`)
}

// A transaction is shown what it adds up to, also after it has gone back to a savepoint.
func TestATransactionSeesWhatItIsAboutToCommit(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.create("ServiceEntry", "default", "reviews", reviews)
	db.create("VirtualService", "default", "a", route("reviews", `{"host": "reviews"}`))
	require.Empty(t, db.pending())
	require.Empty(t, db.told())

	db.Exec("BEGIN")
	require.Empty(t, db.pending())
	db.Exec(`UPDATE mesh.virtual_services SET hosts = '{other}'`)
	db.Exec(`DELETE FROM mesh.service_entries`)
	require.Equal(t, []string{"delete ServiceEntry default/reviews", `update VirtualService default/a spec.hosts[0] "reviews" -> "other"`}, db.pending())
	require.Equal(t, []string{"told error unknown-host VirtualService default/a spec.http[0].route[0].destination.host"}, db.told())

	db.Exec("SAVEPOINT s")
	db.Exec(`UPDATE mesh.virtual_services SET hosts = '{reviews}'`)
	db.Exec(`INSERT INTO mesh.secrets (namespace, name, type, data) VALUES ('default', 's', 'Opaque', '{"password": "cGFzc3dvcmQ="}')`)
	require.Equal(t, []string{"create Secret default/s", "delete ServiceEntry default/reviews"}, db.pending(), "what was changed back is no change")
	require.NotContains(t, value[string](db, "SELECT string_agg(p::text, '') FROM mesh.pending() p"), "cGFzc3dvcmQ", "the values of secrets are not shown")
	db.Exec("ROLLBACK TO SAVEPOINT s")
	require.Equal(t, []string{"delete ServiceEntry default/reviews", `update VirtualService default/a spec.hosts[0] "reviews" -> "other"`}, db.pending())
	require.Equal(t, []string{"told error unknown-host VirtualService default/a spec.http[0].route[0].destination.host"}, db.told())
	db.Exec("COMMIT")
	require.Empty(t, db.pending())
	require.Equal(t, int64(3), db.Newest())
}

// What a transaction is told before it commits is what it is told by the commit, whether it was asked
// before or not.
func TestATransactionIsToldBeforeItsCommit(t *testing.T) {
	t.Parallel()
	db, warnings := warned(t, pgtest.New(t))
	db.create("ServiceEntry", "default", "reviews", reviews)
	db.create("VirtualService", "default", "a", route("reviews", `{"host": "reviews"}`))
	db.Exec("BEGIN")
	db.Exec(`UPDATE mesh.virtual_services SET http = '[{"route": [{"destination": {"host": "nobody"}}]}]'`)
	dangling := []string{"told error unknown-host VirtualService default/a spec.http[0].route[0].destination.host"}
	require.Equal(t, dangling, db.told())
	require.Empty(t, warnings())
	db.Exec("SET CONSTRAINTS ALL IMMEDIATE")
	require.Len(t, warnings(), 1)
	require.Equal(t, dangling, db.told(), "found again")
	require.Empty(t, warnings())
	db.Exec("COMMIT")

	db.Exec(`INSERT INTO mesh.settings (name, value) VALUES ('strict_references', 'on')`)
	db.Exec("BEGIN")
	db.Exec(`UPDATE mesh.virtual_services SET http = '[{"route": [{"destination": {"host": "nobody-else"}}]}]'`)
	require.Equal(t, []string{"refused error unknown-host VirtualService default/a spec.http[0].route[0].destination.host"}, db.told())
	require.Equal(t, []string{"refused error unknown-host VirtualService default/a spec.http[0].route[0].destination.host"}, db.told())
	db.Refused("COMMIT")
}

// Tenants are shown what they may read, and told of their limits.
func TestTenantsSeeWhatTheyAreAboutToCommit(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	tenant := y.tenant("tenant", [2]string{"a", "write"})
	y.owner.Exec(`INSERT INTO mesh.settings (namespace, name, value) VALUES ('a', 'namespace_max_resources', '1')`)
	tx, err := tenant.Conn.Begin(t.Context())
	require.NoError(t, err)
	tenant.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', 'a', 'second', $1)`, virtualService("second"))
	require.Equal(t, []string{"create VirtualService a/second"}, tenant.pending())
	require.Contains(t, tenant.told(), "refused error limit")
	require.NoError(t, tx.Rollback(t.Context()))

	y.owner.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', 'b', 'y', $1)`, virtualService("canary"))
	y.owner.Exec("BEGIN")
	y.owner.Exec(`DELETE FROM mesh.resources`)
	require.Len(t, y.owner.pending(), 2)
	y.owner.Exec("SET ROLE " + pgx.Identifier{value[string](tenant, "SELECT session_user::text")}.Sanitize())
	require.Equal(t, []string{"delete VirtualService a/x"}, y.owner.pending())
	y.owner.Exec("ROLLBACK; RESET ROLE")
}
