package store_test

import (
	"encoding/json"
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/feed"
)

// open gives a test a Store on a database of its own.
func open(t *testing.T) (*store.Store, string) {
	t.Helper()
	return storetest.Open(t)
}

func openURL(t *testing.T, url string) *store.Store {
	t.Helper()
	return storetest.OpenURL(t, url)
}

// session is a plain SQL session, as of psql, with what these tests look at.
type session struct{ storetest.Session }

func connect(t testing.TB, url string) session {
	t.Helper()
	return session{storetest.Connect(t, url)}
}

// value is the one value that a query returns.
func value[T any](s session, sql string, args ...any) T {
	s.T.Helper()
	return storetest.Value[T](s.Session, sql, args...)
}

// collect has the first column of what a query returns.
func collect[T any](s session, sql string, args ...any) []T {
	s.T.Helper()
	return storetest.Collect[T](s.Session, sql, args...)
}

func virtualService(host string) json.RawMessage { return storetest.VirtualService(host) }

func vs(t testing.TB, name string) kinds.Key {
	t.Helper()
	return storetest.Key(t, name)
}

// follow is a follower of the database until the test ends.
func follow(t *testing.T, s *store.Store, after store.Revision) <-chan feed.Batch {
	t.Helper()
	return storetest.Follow(t, storetest.Feed(t, s), after)
}
