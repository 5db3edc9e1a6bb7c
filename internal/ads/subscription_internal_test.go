package ads

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Otherwise the stage of removals would seem to have more to send, and the first response would be
// overtaken.
func TestANewClientIsBroughtAllTheWayAtOnce(t *testing.T) {
	t.Parallel()
	sub := newSubscription("test/Cluster", "test/Cluster")
	sub.begin(nil)
	sub.wildcard, sub.target = true, served.NewSet(&served.Resource{Name: "a", Version: "1"})
	require.Len(t, sub.advance(additions).changed, 1)
	require.True(t, sub.settled(everything))
}
