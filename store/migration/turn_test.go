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

// Whoever is done lets others go on at once, while it is still connected: a command right after another is
// not told to wait for it.
func TestATurnEndsBeforeItsConnection(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waited := ""
		conn := connectToMigrate(t, url)
		err := migration.TakeTurn(ctx, conn, func(said string) {
			waited = said
			cancel()
		})
		require.NoError(t, err, waited)
		migration.EndTurn(ctx, conn)
	}
}

// A session that connected before another may be seen only when the other has its turn: then it waits.
func TestWhoIsSeenLateWaitsForWhoseTurnItIs(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	ctx := t.Context()
	claims := func(conn *pgx.Conn) string {
		before, err := migration.Claim(ctx, conn, false)
		require.NoError(t, err)
		return before
	}
	first := connectToMigrate(t, url)
	require.NoError(t, migration.Call(ctx, first, "not seen yet"))
	second, third := connectToMigrate(t, url), connectToMigrate(t, url)
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

// connectToMigrate connects for the time of the test.
func connectToMigrate(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := migration.ConnectToMigrate(t.Context(), url, func(string) {})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}
