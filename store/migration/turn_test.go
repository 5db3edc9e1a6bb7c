package migration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/store/migration"
)

// A session that connected before another may be seen only when the other has its turn: then it waits.
func TestWhoIsSeenLateWaitsForWhoseTurnItIs(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	ctx := t.Context()
	connect := func() *pgx.Conn {
		conn, err := migration.ConnectToMigrate(ctx, url, func(string) {})
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close(ctx) })
		return conn
	}
	claims := func(conn *pgx.Conn) string {
		before, err := migration.Claim(ctx, conn, false)
		require.NoError(t, err)
		return before
	}
	first := connect()
	require.NoError(t, migration.Call(ctx, first, "not seen yet"))
	second, third := connect(), connect()
	require.Contains(t, claims(third), "session", "the second comes before the third")
	require.Empty(t, claims(second))

	require.NoError(t, migration.Call(ctx, first, migration.Waits))
	require.NotEmpty(t, claims(first), "it is the second's turn")
	require.NotEmpty(t, claims(third))
	require.NoError(t, second.Close(ctx))
	poll.Within(t, 20*time.Second, func(context.Context) error {
		if claims(first) != "" {
			return errors.New("the second's turn has not ended")
		}
		return nil
	})
	require.NotEmpty(t, claims(third))
}
