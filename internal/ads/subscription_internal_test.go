package ads

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Otherwise its first response would be thought to be overtaken when the plan comes to what it removes.
func TestWhoHadNothingHasNothingToLose(t *testing.T) {
	t.Parallel()
	sub := newSubscription("test/Cluster", "test/Cluster")
	sub.begin(nil)
	sub.wildcard, sub.target = true, served.NewSet(&served.Resource{Name: "a", Version: "1"})
	require.Len(t, sub.advance(additions).changed, 1)
	require.True(t, sub.settled(everything))
}
