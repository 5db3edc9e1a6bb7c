package rollout

import (
	"time"

	"github.com/pgmesh/pgmesh/internal/ads"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// mostAudiences bounds a message, as the protocol does.
const mostAudiences = 5000

// audiences returns whom resources concern, where that differs from what was reported, and notes the
// circle of each proxy. It looks as often as the survey, and when proxies are new: who is described
// has its circle from the start.
func (l *ledger) audiences(streams []*ads.Stream, now time.Time) (all []*rolloutv1.Audience) {
	if !l.surveyDue(now) && !l.anyNew(streams) {
		return nil
	}
	for _, a := range l.of.Audiences.Changed() {
		all = append(all, &rolloutv1.Audience{Resource: resourceOf(a.Of), Everyone: a.Everyone, Circles: a.Circles})
	}
	for _, s := range streams {
		if m, connected := l.of.Member(s.Subscriber()); connected {
			l.proxies[s].circle = m.Circle
		}
	}
	return all
}

// anyNew reports whether some proxies were not reported yet.
func (l *ledger) anyNew(streams []*ads.Stream) bool {
	for _, s := range streams {
		if l.proxies[s].told == nil {
			return true
		}
	}
	return false
}
