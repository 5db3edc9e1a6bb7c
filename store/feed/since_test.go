package feed_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/feed"
)

func TestBatchesSinceAPosition(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	none, more, err := s.Since(t.Context(), feed.At(0))
	require.NoError(t, err)
	require.False(t, more)
	require.Empty(t, none)
	for _, host := range []string{"a", "b", "c"} {
		db.Put("x", host)
	}

	batches, more, err := s.Since(t.Context(), feed.At(1))

	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, batches, 2)
	require.Equal(t, store.Revision(1), batches[0].Changes[0].Before.Revision)
	_, _, err = s.Since(t.Context(), batches[1].Position())
	require.NoError(t, err)
	for name, after := range map[string]feed.Position{
		"a revision that is not there": feed.At(4), "another one of the number": {Revision: 3, Mark: "other"},
	} {
		_, _, err := s.Since(t.Context(), after)
		require.ErrorIs(t, err, feed.ErrTooOld, name)
	}
	db.Exec("SELECT mesh.prune(2)")
	_, _, err = s.Since(t.Context(), feed.At(1))
	require.ErrorIs(t, err, feed.ErrTooOld)
}
