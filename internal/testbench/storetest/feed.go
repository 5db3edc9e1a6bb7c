package storetest

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/feed"
)

// Feed is the feed of a database.
func Feed(t testing.TB, db *store.Store) *feed.Feed {
	t.Helper()
	return FeedWith(t, db, feed.Options{})
}

// FeedWith is Feed with options.
func FeedWith(t testing.TB, db *store.Store, o feed.Options) *feed.Feed {
	t.Helper()
	f, err := feed.New(db, o)
	require.NoError(t, err)
	return f
}

// Follow runs a follower in the background until the test ends. The channel is closed if it ends
// before.
func Follow(t testing.TB, f *feed.Feed, after store.Revision) <-chan feed.Batch {
	t.Helper()
	batches := make(chan feed.Batch)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		defer close(batches)
		done <- f.Follow(ctx, feed.At(after), func(b feed.Batch) error {
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

// State is what a follower that keeps everything knows.
type State map[kinds.Key]*store.Resource

// Apply changes the state by a batch, which must fit it.
func (s State) Apply(t testing.TB, b feed.Batch) {
	t.Helper()
	for _, c := range b.Changes {
		if !cmp.Equal(s[c.Key], c.Before) {
			require.Empty(t, cmp.Diff(s[c.Key], c.Before), "revision %d starts from what was there", b.Revision)
		}
		if c.After == nil {
			delete(s, c.Key)
		} else {
			s[c.Key] = c.After
		}
	}
}

// Tables is what the tables say, and as of which revision.
func Tables(t testing.TB, f *feed.Feed) (State, store.Revision) {
	t.Helper()
	all := State{}
	at, err := f.Snapshot(t.Context(), func(r *store.Resource) error {
		all[r.Key] = r
		return nil
	})
	require.NoError(t, err)
	return all, at.Revision
}
