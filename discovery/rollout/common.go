package rollout

import (
	"time"

	"github.com/pgmesh/pgmesh/internal/ads"
)

const (
	// mostSingly is how many proxies may be described one by one while a push takes long; where there
	// are many, it is one in partSingly. If more are behind, all are reported to run an older
	// revision.
	mostSingly = 100
	partSingly = 10
	// longestLag is how old that revision may be.
	longestLag = 2 * time.Second
)

// lag remembers which revision was the newest, for as long as proxies may lag behind.
type lag []seen

type seen struct {
	at     time.Time
	newest int64
}

// note notes which revision is the newest now, and returns the one that all proxies have had time
// for.
func (l *lag) note(newest int64, now time.Time) (due int64) {
	*l = append(*l, seen{now, newest})
	n := 0
	for n+1 < len(*l) && now.Sub((*l)[n+1].at) >= longestLag {
		n++
	}
	*l = (*l)[n:]
	if now.Sub((*l)[0].at) < longestLag {
		return -1
	}
	return (*l)[0].newest
}

// common is the revision that all in step are reported to run while some do not run the newest: the
// newest at the comparison before, or an older one if many do not run that either. So where a push
// takes longer than an interval, proxies are not described one by one, again and again. It does not
// wait for those that do not run even the revision that is due.
func (l *ledger) common(streams []*ads.Stream, before, due int64) int64 {
	proxies, behind, oldest := 0, 0, before
	for _, s := range streams {
		e := l.proxies[s]
		if e.running.Refused > 0 || e.told == nil || e.runs < max(0, due) {
			continue
		}
		proxies++
		if e.runs < before {
			behind, oldest = behind+1, min(oldest, e.runs)
		}
	}
	if behind <= max(mostSingly, proxies/partSingly) {
		return before
	}
	if l.step <= l.newest { // else the mesh was replaced
		return max(oldest, l.step)
	}
	return oldest
}
