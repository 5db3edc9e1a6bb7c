package rollout

import (
	"time"

	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// settled is differences for the moment when all proxies have come to run what they were offered.
// It returns nothing if one of them does not after all: the next comparison tells.
func (l *ledger) settled(now time.Time) []*rolloutv1.ReportRequest {
	newest := l.of.Revision()
	if l.onlyAnswered(newest, now) {
		if _, behind := l.observe(l.outOfStep, newest); behind {
			return nil
		}
		l.newest = newest
		return l.report(l.outOfStep, nil, newest, now)
	}
	streams, moves := l.all()
	if _, behind := l.observe(streams, newest); behind {
		return nil
	}
	l.newest, l.moves = newest, moves
	return l.report(streams, l.gone(), newest, now)
}

// onlyAnswered reports whether only the proxies that were not in step have to be looked at: all others
// were in step, and have said that they run the newest revision. That is so after nearly every
// change, and spares a look at every proxy.
func (l *ledger) onlyAnswered(newest int64, now time.Time) bool {
	return l.newest <= newest && !l.surveyDue(now) && !l.anyNew(l.outOfStep) && l.watch.onlyAnswered(l.moves)
}
