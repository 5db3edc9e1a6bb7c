package rollout

import (
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/pgmesh/pgmesh/internal/ads"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

const (
	// singlySecond is how many proxies a second may be described as being sent something, and
	// singlyBurst how many at once. Each is a row that Postgres writes. Where discovery is at its
	// limit, more of them would take the time that it needs to get back.
	singlySecond = 50
	singlyBurst  = 100
	// calmAfter is how long no new revision has to come until every proxy that is behind is described,
	// however many there are.
	calmAfter = 1500 * time.Millisecond
)

// singly bounds how many proxies are described one by one while changes follow one another.
type singly struct {
	newest int64
	since  time.Time // when that came to be the newest
	pace   *rate.Limiter
}

func newSingly() singly {
	return singly{newest: -1, pace: rate.NewLimiter(singlySecond, singlyBurst)}
}

// note notes which revision is the newest now.
func (s *singly) note(newest int64, now time.Time) {
	if s.newest != newest {
		s.newest, s.since = newest, now
	}
}

// calm reports whether no change has come for a while.
func (s *singly) calm(now time.Time) bool { return now.Sub(s.since) >= calmAfter }

// room is how many proxies may be described now.
func (s *singly) room(now time.Time) int { return max(0, int(s.pace.TokensAt(now))) }

// may reports whether one more proxy may be described as being sent something, and counts it.
func (s *singly) may(now time.Time) bool { return s.pace.AllowN(now, 1) || s.calm(now) }

// common is the revision that all in step are reported to run while some do not run the newest: the
// newest at the comparison before. While changes follow one another, too many may be behind that one
// to be described. Then it is the newest revision that few enough are behind.
func (l *ledger) common(streams []*ads.Stream, before int64, now time.Time) int64 {
	if l.singly.calm(now) {
		return before
	}
	var behind []int64 // what those run that would fall out of step
	for _, s := range streams {
		e := l.proxies[s]
		if e.running.Refused == 0 && e.runs < before && e.told.GetState() == rolloutv1.Proxy_STATE_IN_STEP {
			behind = append(behind, e.runs)
		}
	}
	room := l.singly.room(now)
	if len(behind) <= room {
		return before
	}
	slices.Sort(behind)
	if l.step > l.newest { // the mesh was replaced by an older one
		return max(behind[room], 0)
	}
	return max(behind[room], l.step)
}
