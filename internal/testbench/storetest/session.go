// Package storetest has what tests of the store share: SQL sessions like psql's, databases with
// tenants, followers.
package storetest

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
)

// Open opens a Store on a new database, and returns the database's URL, too.
func Open(t testing.TB) (*store.Store, string) {
	t.Helper()
	url := pgtest.New(t)
	return OpenURL(t, url), url
}

// OpenURL opens a database until the test ends.
func OpenURL(t testing.TB, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// Session is a plain SQL session, like psql's.
type Session struct {
	T    testing.TB
	Conn *pgx.Conn
}

// Connect opens a session until the test ends.
func Connect(t testing.TB, url string) Session {
	t.Helper()
	return ConnectHearing(t, url, nil)
}

// ConnectHearing is Connect that also passes on notices of the server.
func ConnectHearing(t testing.TB, url string, hear func(*pgconn.Notice)) Session {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	if hear != nil {
		config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { hear(n) }
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return Session{t, conn}
}

// Exec runs a statement that must succeed.
func (s Session) Exec(sql string, args ...any) {
	s.T.Helper()
	_, err := s.Conn.Exec(context.Background(), sql, args...)
	require.NoError(s.T, err, sql)
}

// Tries reports whether a statement succeeds.
func (s Session) Tries(sql string, args ...any) bool {
	_, err := s.Conn.Exec(context.Background(), sql, args...)
	return err == nil
}

// Refused runs a statement that must fail.
func (s Session) Refused(sql string, args ...any) *pgconn.PgError {
	s.T.Helper()
	_, err := s.Conn.Exec(context.Background(), sql, args...)
	var pg *pgconn.PgError
	require.ErrorAs(s.T, err, &pg, sql)
	return pg
}

// Notices runs a statement in a new session, and returns the server's notices.
func (s Session) Notices(sql string) (told []string) {
	s.T.Helper()
	ConnectHearing(s.T, s.Conn.Config().ConnString(), func(n *pgconn.Notice) { told = append(told, n.Message) }).Exec(sql)
	return told
}

// Put writes a virtual service whose only route leads to the host.
func (s Session) Put(name, host string) {
	s.T.Helper()
	s.Exec(`INSERT INTO mesh.resources (kind, name, spec) VALUES ('VirtualService', $1, $2)
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`, name, VirtualService(host))
}

// Newest is the newest revision.
func (s Session) Newest() int64 {
	s.T.Helper()
	return Value[int64](s, "SELECT coalesce(max(revision), 0) FROM mesh.revisions")
}

// Value is the only value that a query returns.
func Value[T any](s Session, sql string, args ...any) T {
	s.T.Helper()
	rows, err := s.Conn.Query(context.Background(), sql, args...)
	require.NoError(s.T, err, sql)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(s.T, err, sql)
	return v
}

// Collect returns the first column of a query.
func Collect[T any](s Session, sql string, args ...any) []T {
	s.T.Helper()
	rows, err := s.Conn.Query(context.Background(), sql, args...)
	require.NoError(s.T, err, sql)
	all, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(s.T, err, sql)
	return all
}

// VirtualService is the spec of a virtual service whose only route leads to the host.
func VirtualService(host string) json.RawMessage {
	return json.RawMessage(`{"hosts": ["` + host + `"], "http": [{"route": [{"destination": {"host": "` + host + `"}}]}]}`)
}

// Key names a virtual service in the namespace default.
func Key(t testing.TB, name string) kinds.Key {
	t.Helper()
	kind, ok := kinds.Lookup("networking.istio.io", "VirtualService")
	require.True(t, ok)
	return kinds.Key{Kind: kind, Namespace: "default", Name: name}
}

// Quietly discards what a migration reports.
func Quietly(string) {}
