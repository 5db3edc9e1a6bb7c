package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/store"
)

func TestOnlyOneServerCreatesTheSealingKey(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.Context(), pgtest.New(t), store.Options{})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	made := make(chan bool)
	for _, id := range []string{"a", "b", "c", "d"} {
		go func() {
			added, err := s.AddSealingKey(t.Context(), store.SealingKey{ID: id, Wrapped: "kms:" + id}, 0)
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
	added, err := s.AddSealingKey(t.Context(), store.SealingKey{ID: "e", Wrapped: "kms:e"}, 1)
	require.NoError(t, err)
	require.True(t, added)
	again, err := s.SealingKeys(t.Context())
	require.NoError(t, err)
	require.Equal(t, append(kept, store.SealingKey{ID: "e", Wrapped: "kms:e"}), again, "the oldest first")
}
