package rollout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A revision is due when it has been the newest, or an older one, for two seconds.
func TestLag(t *testing.T) {
	t.Parallel()
	var l lag
	begun := time.Unix(100, 0)
	for _, c := range []struct {
		after       time.Duration
		newest, due int64
	}{
		{0, 4, -1}, {time.Second, 5, -1}, {2 * time.Second, 7, 4}, {2900 * time.Millisecond, 8, 4}, {3 * time.Second, 9, 5}, {time.Minute, 9, 9},
	} {
		require.Equal(t, c.due, l.note(c.newest, begun.Add(c.after)), c.after)
	}
	require.Len(t, l, 2)
}
