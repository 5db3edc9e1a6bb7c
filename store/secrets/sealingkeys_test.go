package secrets_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/secrets"
)

func TestOnlyOneServerCreatesTheSealingKey(t *testing.T) {
	t.Parallel()
	db, _ := storetest.Open(t)
	s := secrets.New(db)
	made := make(chan bool)
	for _, id := range []string{"a", "b", "c", "d"} {
		go func() {
			added, err := s.AddSealingKey(t.Context(), secrets.SealingKey{ID: id, Wrapped: "kms:" + id}, 0)
			made <- added && err == nil
		}()
	}
	count := 0
	for range 4 {
		if <-made {
			count++
		}
	}
	require.Equal(t, 1, count)
	kept, err := s.SealingKeys(t.Context())
	require.NoError(t, err)
	require.Len(t, kept, 1)
	added, err := s.AddSealingKey(t.Context(), secrets.SealingKey{ID: "e", Wrapped: "kms:e"}, 1)
	require.NoError(t, err)
	require.True(t, added)
	again, err := s.SealingKeys(t.Context())
	require.NoError(t, err)
	require.Equal(t, append(kept, secrets.SealingKey{ID: "e", Wrapped: "kms:e"}), again, "the oldest first")
}
