// Package storetest gives tests of the store what they share: sessions as of psql, databases with
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

// Open gives a test a Store on a database of its own, and the URL of that.
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

// Session is a plain SQL session, as of psql.
type Session struct {
	T    testing.TB
	Conn *pgx.Conn
}

// Connect opens a session until the test ends.
func Connect(t testing.TB, url string) Session {
	t.Helper()
	return ConnectHearing(t, url, nil)
}

// ConnectHearing is Connect that passes on what the server tells beside its answers.
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

// Exec runs a statement, which the database must take.
func (s Session) Exec(sql string, args ...any) {
	s.T.Helper()
	_, err := s.Conn.Exec(context.Background(), sql, args...)
	require.NoError(s.T, err, sql)
}

// Tries tells whether the database takes a statement.
func (s Session) Tries(sql string, args ...any) bool {
	_, err := s.Conn.Exec(context.Background(), sql, args...)
	return err == nil
}

// Refused runs a statement, which the database must refuse.
func (s Session) Refused(sql string, args ...any) *pgconn.PgError {
	s.T.Helper()
	_, err := s.Conn.Exec(context.Background(), sql, args...)
	var pg *pgconn.PgError
	require.ErrorAs(s.T, err, &pg, sql)
	return pg
}

// Notices runs a statement in a session of its own, and returns what that was told.
func (s Session) Notices(sql string) (told []string) {
	s.T.Helper()
	ConnectHearing(s.T, s.Conn.Config().ConnString(), func(n *pgconn.Notice) { told = append(told, n.Message) }).Exec(sql)
	return told
}

// Put writes a virtual service whose only route goes to the host.
func (s Session) Put(name, host string) {
	s.T.Helper()
	s.Exec(`INSERT INTO mesh.resources (kind, name, spec) VALUES ('VirtualService', $1, $2)
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`, name, VirtualService(host))
}

// Newest is the last revision there is.
func (s Session) Newest() int64 {
	s.T.Helper()
	return Value[int64](s, "SELECT coalesce(max(revision), 0) FROM mesh.revisions")
}

// Value is the one value that a query returns.
func Value[T any](s Session, sql string, args ...any) T {
	s.T.Helper()
	rows, err := s.Conn.Query(context.Background(), sql, args...)
	require.NoError(s.T, err, sql)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(s.T, err, sql)
	return v
}

// Collect has the first column of what a query returns.
func Collect[T any](s Session, sql string, args ...any) []T {
	s.T.Helper()
	rows, err := s.Conn.Query(context.Background(), sql, args...)
	require.NoError(s.T, err, sql)
	all, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(s.T, err, sql)
	return all
}

// VirtualService is the spec of a virtual service whose only route goes to the host.
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
