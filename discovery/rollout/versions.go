package rollout

import (
	"time"

	"github.com/pgmesh/pgmesh/internal/ads"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// mostVersions bounds a message, as the protocol does.
const mostVersions = 5000

// versions returns the versions of registries' resources that differ from what was reported: those of
// configuration at once, and those of services as often as the survey looks, for a registry may
// change many of them each second. Call it only for a report that is made for certain.
func (l *ledger) versions(now time.Time) (all []*rolloutv1.Version) {
	if !l.of.Versions.Urgent() && !l.surveyDue(now) {
		return nil
	}
	for _, v := range l.of.Versions.Changed() {
		all = append(all, &rolloutv1.Version{Resource: resourceOf(v.Of), Version: v.Version, Push: v.Push})
		l.brought = max(l.brought, v.Push)
	}
	return all
}

// commonPush is the push that all in step are reported to run: one that each of these proxies runs
// that is in step with a revision and answers. All others are known to run the newest. It does not
// count pushes where no registry has anything.
func (l *ledger) commonPush(streams []*ads.Stream, step int64, now time.Time) uint64 {
	if !l.of.Versions.Any() {
		return l.stepPush
	}
	common := l.push
	for _, s := range streams {
		if e := l.proxies[s]; e.running.Refused == 0 && e.runs >= step && !e.silent(now) {
			common = min(common, e.push)
		}
	}
	return max(common, l.stepPush)
}
