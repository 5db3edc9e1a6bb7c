package store_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
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
