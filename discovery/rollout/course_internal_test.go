package rollout

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// A server takes the times of a push in order alone, however many proxies answer at once.
func TestTimesOfAPushAreInOrder(t *testing.T) {
	t.Parallel()
	const proxies, pushes = 64, 50
	w := newWatch()
	var courses []*course
	for range proxies {
		c, is := w.Joined(served.NewSubscriber(nil), "shop").(*course)
		require.True(t, is)
		courses = append(courses, c)
	}
	for revision := range int64(pushes) {
		w.Pushing(push.Begun{After: revision, Revision: revision + 1, At: time.Now()})
		for _, c := range courses {
			c.Offered()
		}
		w.Pushed()
		var answers sync.WaitGroup
		for _, c := range courses {
			answers.Go(func() { c.Ran(&served.Snapshot{Revision: fmt.Sprint(revision + 1)}) })
		}
		answers.Wait()
	}
	for _, p := range w.pushes {
		require.Len(t, p.parts["shop"].took, proxies)
		require.True(t, slices.IsSorted(p.parts["shop"].took), "%v", p.parts["shop"].took)
	}
}
