package rollout

import (
	"maps"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/internal/ads"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// settled is differences for the moment when all proxies have come to run what they were offered.
// It returns nothing if one of them does not after all: then it is called again, or the next
// comparison tells.
func (l *ledger) settled(now time.Time) []*rolloutv1.ReportRequest {
	if l.watch.anyBehind() { // since then, the next push has begun
		return nil
	}
	newest := l.newestNow()
	if !l.onlyAnswered(newest) {
		streams, moves := l.all()
		if _, behind := l.observe(streams, newest); behind {
			return nil
		}
		l.newest, l.moves = newest, moves
		audiences, _ := l.audiences(streams, now)
		return l.report(streams, l.gone(), audiences, newest, now)
	}
	if _, behind := l.observe(l.outOfStep, newest); behind {
		return nil
	}
	l.newest = newest
	audiences, moved := l.audiences(l.outOfStep, now)
	l.observe(moved, newest)
	return l.report(union(l.outOfStep, moved), nil, audiences, newest, now)
}

// onlyAnswered reports whether only the proxies that were not in step have to be looked at: all others
// were in step, and have said that they run the newest revision. That is so after nearly every
// change, and spares a look at every proxy.
func (l *ledger) onlyAnswered(newest int64) bool {
	return l.newest <= newest && !l.anyNew(l.outOfStep) && l.watch.onlyAnswered(l.moves)
}

// union returns the proxies that are in either list, in any order.
func union(a, b []*ads.Stream) []*ads.Stream {
	all := make(map[*ads.Stream]bool, len(a)+len(b))
	for _, s := range slices.Concat(a, b) {
		all[s] = true
	}
	return slices.Collect(maps.Keys(all))
}
