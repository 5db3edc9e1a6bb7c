package storetest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Seed is the seed of a random test, which PGMESH_SEED replays.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if given := os.Getenv("PGMESH_SEED"); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("PGMESH_SEED=%d", seed)
	return seed
}
