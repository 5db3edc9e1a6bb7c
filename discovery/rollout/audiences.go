package rollout

import (
	"time"

	"github.com/pgmesh/pgmesh/internal/ads"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// mostAudiences bounds a message, as the protocol does.
const mostAudiences = 5000

// audiences returns whom resources concern, where that differs from what was reported, and notes the
// circle of each proxy. It returns the proxies that have another circle than before. It looks now and
// then, when some of the compared proxies are new, for who is described has its circle from the start,
// and with versions of configuration, whose authors wait to be told who runs it. Call it only for a
// report that is made for certain: the audiences count as reported.
func (l *ledger) audiences(compared []*ads.Stream, now time.Time) (all []*rolloutv1.Audience, moved []*ads.Stream) {
	if !l.auditDue(now) && !l.of.Versions.Urgent() && l.audited >= l.brought && !l.anyNew(compared) {
		return nil, nil
	}
	l.audited, l.auditBegan, l.auditSize = l.push, now, l.of.Size()
	defer func(begun time.Time) { l.auditTook = time.Since(begun) }(time.Now())
	for _, a := range l.of.Audiences.Changed() {
		all = append(all, &rolloutv1.Audience{Resource: resourceOf(a.Of), Everyone: a.Everyone, Circles: a.Circles})
	}
	for s, e := range l.proxies {
		if m, connected := l.of.Member(s.Subscriber()); connected && m.Circle != e.circle {
			e.circle = m.Circle
			moved = append(moved, s)
		}
	}
	return all, moved
}

// auditShare is the part of its time that a reporter may spend on audiences because of new resources, as
// one in so many.
const auditShare = 20

// auditDue reports whether to look at audiences: as often as the survey, and sooner if there are more
// resources than before. One that is new says that it concerns nobody until they were looked at, and so
// its author waits.
func (l *ledger) auditDue(now time.Time) bool {
	since := now.Sub(l.auditBegan)
	return since >= surveyInterval || l.grown() && since >= max(auditShare*l.auditTook, interval)
}

// grown reports whether there are more resources than when audiences were looked at last.
func (l *ledger) grown() bool { return l.of.Size() > l.auditSize }

// anyNew reports whether some proxies were not reported yet.
func (l *ledger) anyNew(streams []*ads.Stream) bool {
	for _, s := range streams {
		if l.proxies[s].told == nil {
			return true
		}
	}
	return false
}
