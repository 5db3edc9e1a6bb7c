package rollout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// After a change that all have answered, nobody but those who were not in step is looked at. That
// holds only as long as nothing else has happened: else somebody would be shown to run what it
// refuses, or was never sent.
func TestAnythingButAnswersHasAllProxiesLookedAt(t *testing.T) {
	for name, happens := range map[string]struct {
		event func(w *watch, here push.Follower)
		spare bool
	}{
		"a change that is answered": {func(w *watch, here push.Follower) {
			w.Pushing(push.Begun{After: 1, Revision: 2, At: time.Now()})
			here.Offered()
			w.Pushed()
			here.Ran(&served.Snapshot{Revision: "2"})
		}, true},
		"a change that is not answered": {func(w *watch, here push.Follower) {
			w.Pushing(push.Begun{After: 1, Revision: 2, At: time.Now()})
			here.Offered()
			w.Pushed()
		}, false},
		"a change under way": {func(w *watch, here push.Follower) {
			w.Pushing(push.Begun{After: 1, Revision: 2, At: time.Now()})
			here.Offered()
			here.Ran(&served.Snapshot{Revision: "2"})
		}, false},
		"a change for nobody": {func(w *watch, _ push.Follower) {
			w.Pushing(push.Begun{After: 1, Revision: 2, At: time.Now()})
			w.Pushed()
		}, true},
		"a proxy joins":                     {func(w *watch, _ push.Follower) { w.Joined(served.NewSubscriber(nil), "shop") }, false},
		"a proxy leaves":                    {func(_ *watch, here push.Follower) { here.Left(nil) }, false},
		"a proxy refuses something":         {func(w *watch, _ push.Follower) { w.Refused() }, false},
		"a proxy is sent what it asked for": {func(_ *watch, here push.Follower) { here.Offered() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatch()
			here := w.Joined(served.NewSubscriber(nil), "shop")
			moves := w.movesNow()
			happens.event(w, here)
			require.Equal(t, happens.spare, w.onlyAnswered(moves))
		})
	}
}
