package store_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
)

// open gives a test a Store on a database of its own.
func open(t *testing.T) (*store.Store, string) {
	t.Helper()
	url := pgtest.New(t)
	return openURL(t, url), url
}

func openURL(t *testing.T, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// session is a plain SQL session, as of psql.
type session struct {
	t    testing.TB
	conn *pgx.Conn
}

func connect(t testing.TB, url string) session {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return session{t, conn}
}

func (s session) exec(sql string, args ...any) {
	s.t.Helper()
	_, err := s.conn.Exec(context.Background(), sql, args...)
	require.NoError(s.t, err, sql)
}

// tries tells whether the database takes it.
func (s session) tries(sql string, args ...any) bool {
	_, err := s.conn.Exec(context.Background(), sql, args...)
	return err == nil
}

// value is the one value that a query returns.
func value[T any](s session, sql string, args ...any) T {
	s.t.Helper()
	rows, err := s.conn.Query(context.Background(), sql, args...)
	require.NoError(s.t, err, sql)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(s.t, err, sql)
	return v
}

// put writes a virtual service whose only route goes to the host.
func (s session) put(name, host string) {
	s.t.Helper()
	s.exec(`INSERT INTO mesh.resources (kind, name, spec) VALUES ('VirtualService', $1, $2)
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`, name, virtualService(host))
}

func virtualService(host string) json.RawMessage {
	return json.RawMessage(`{"hosts": ["` + host + `"], "http": [{"route": [{"destination": {"host": "` + host + `"}}]}]}`)
}

func vs(t testing.TB, name string) kinds.Key {
	t.Helper()
	kind, ok := kinds.Lookup("networking.istio.io", "VirtualService")
	require.True(t, ok)
	return kinds.Key{Kind: kind, Namespace: "default", Name: name}
}

// follow runs a follower in the background until the test ends. The channel is closed if it ends before.
func follow(t *testing.T, s *store.Store, after store.Revision) <-chan store.Batch {
	t.Helper()
	batches := make(chan store.Batch)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		defer close(batches)
		done <- s.Follow(ctx, store.At(after), func(b store.Batch) error {
			select {
			case batches <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
	return batches
}
