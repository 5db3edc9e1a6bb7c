package feed_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// A server that was away for longer than history reaches starts from a new snapshot, and sends its
// clients the difference.
func TestAServerThatFellBehindTheHistoryCatchesUp(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.write("a", "a.example")
	b.write("same", "same.example")
	b.write("gone", "gone.example")
	same := b.at(3).Sets[virtualServices].Get("default/same")

	database := b.value("SELECT quote_ident(current_database())")
	keepOut := func(allow bool) {
		config := b.conn.Config().Copy()
		config.Database = "postgres"
		elsewhere, err := pgx.ConnectConfig(t.Context(), config)
		require.NoError(t, err)
		_, err = elsewhere.Exec(t.Context(), fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS %v", database, allow))
		require.NoError(t, err)
		require.NoError(t, elsewhere.Close(context.Background()))
	}
	keepOut(false)
	b.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	b.write("a", "b.example")
	b.sql("DELETE FROM mesh.resources WHERE name = 'gone'")
	b.write("new", "new.example")
	b.write("a", "c.example")
	b.sql("SELECT mesh.prune(6)")
	keepOut(true)

	snap := b.at(7)
	require.Same(t, same, snap.Sets[virtualServices].Get("default/same"), "what has not changed is not sent again")
	require.Nil(t, snap.Sets[virtualServices].Get("default/gone"))
	require.NotNil(t, snap.Sets[virtualServices].Get("default/new"))
	require.Contains(t, string(snap.Sets[virtualServices].Get("default/a").Body.GetValue()), "c.example")
	b.write("a", "d.example")
	require.Contains(t, string(b.at(8).Sets[virtualServices].Get("default/a").Body.GetValue()), "d.example")
}

// value is the one text that a query returns.
func (b *bundle) value(sql string) string {
	b.t.Helper()
	var v string
	require.NoError(b.t, b.conn.QueryRow(b.t.Context(), sql).Scan(&v))
	return v
}
