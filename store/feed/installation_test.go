package feed_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/feed"
	"github.com/pgmesh/pgmesh/store/migration"
)

func TestADatabaseIsKnownByItsOwnInstallation(t *testing.T) {
	t.Parallel()
	id := func(url string) string {
		s, err := store.New(url, store.Options{})
		require.NoError(t, err)
		defer s.Close()
		id, err := storetest.Feed(t, s).Installation(t.Context())
		require.NoError(t, err)
		return id
	}
	first := pgtest.Empty(t)
	require.NoError(t, migration.Up(t.Context(), first))
	second := pgtest.Empty(t)
	require.NoError(t, migration.Up(t.Context(), second))
	require.Regexp(t, "^[0-9a-f]{32}$", id(first))
	again := id(first)
	require.Equal(t, id(first), again)
	require.NotEqual(t, id(second), again)
}

func TestPlacesNameNeitherUsersNorPasswords(t *testing.T) {
	t.Parallel()
	places := func(url, replica string) []string {
		s, err := store.New(url, store.Options{})
		require.NoError(t, err)
		defer s.Close()
		return storetest.FeedWith(t, s, feed.Options{Replica: replica}).Places()
	}
	require.Equal(t, []string{"postgres://c:1/mesh", "postgres://d:2/mesh"}, places("postgres://me:secret@a,b:6000/mesh?sslmode=prefer", "postgres://me:secret@c:1,d:2/mesh"))
	require.Equal(t, []string{"postgres://a:5432/mesh", "postgres://b:6000/mesh"}, places("postgres://me:secret@b:6000,a/mesh?sslmode=prefer", ""))
}
