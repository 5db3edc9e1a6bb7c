package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/store"
)

func TestADatabaseIsKnownByItsOwnInstallation(t *testing.T) {
	t.Parallel()
	id := func(url string) string {
		s, err := store.New(url, store.Options{})
		require.NoError(t, err)
		defer s.Close()
		id, err := s.Installation(t.Context())
		require.NoError(t, err)
		return id
	}
	first := pgtest.Empty(t)
	require.NoError(t, store.Migrate(t.Context(), first))
	second := pgtest.Empty(t)
	require.NoError(t, store.Migrate(t.Context(), second))
	require.Regexp(t, "^[0-9a-f]{32}$", id(first))
	again := id(first)
	require.Equal(t, id(first), again)
	require.NotEqual(t, id(second), again)
}

func TestPlacesNameNeitherUsersNorPasswords(t *testing.T) {
	t.Parallel()
	s, err := store.New("postgres://me:secret@a,b:6000/mesh?sslmode=prefer", store.Options{Replica: "postgres://me:secret@c:1,d:2/mesh"})
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, []string{"postgres://c:1/mesh", "postgres://d:2/mesh"}, s.Places())
	s, err = store.New("postgres://me:secret@b:6000,a/mesh?sslmode=prefer", store.Options{})
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, []string{"postgres://a:5432/mesh", "postgres://b:6000/mesh"}, s.Places())
}
