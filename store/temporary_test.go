package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/store"
)

func TestConnectionErrorsSayWhatHelps(t *testing.T) {
	t.Parallel()
	_, err := store.Open(t.Context(), "postgres://u:secret@127.0.0.1:1/db", store.Options{})
	require.ErrorContains(t, err, "nothing listens at that address")
	require.NotContains(t, err.Error(), "secret")

	_, err = store.Open(t.Context(), pgtest.Empty(t), store.Options{})
	require.ErrorContains(t, err, "run mcp-server migrate up")
}

// A machine that crashes says no good-bye, unlike a server that is stopped.
func TestFailuresOfTheServerAreTemporary(t *testing.T) {
	t.Parallel()
	own := pgtest.Server(t)
	config, err := pgx.ParseConfig(own.URL)
	require.NoError(t, err)
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	failed := make(chan error, 1)
	begun := connect(t, own.URL)
	go func() {
		_, err := conn.Exec(t.Context(), "SELECT pg_sleep(600)")
		failed <- err
	}()
	require.Eventually(t, func() bool {
		return value[bool](begun, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)')")
	}, 20*time.Second, 5*time.Millisecond)
	own.Kill()
	err = <-failed
	require.True(t, store.Temporary(err), "%v", err)
	_, err = conn.Exec(t.Context(), "SELECT 1")
	require.True(t, store.Temporary(err), "%v", err)
	_, err = pgx.ConnectConfig(t.Context(), config)
	require.True(t, store.Temporary(err), "%v", err)
}
