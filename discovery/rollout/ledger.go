package rollout

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

const (
	// mostProxies bounds a message, as the protocol does.
	mostProxies = 1000
	// silentAfter is how long a proxy may take to answer before it is called silent.
	silentAfter = 5 * time.Second
	// newcomerTime is how long a proxy that comes with nothing may take to run anything before it is
	// reported as being sent something. When all come at once, each is so reported once, and not
	// while they are served.
	newcomerTime = 2 * time.Second
)

// ledger knows what each proxy runs and what was last reported of it.
type ledger struct {
	of         Proxies
	watch      *watch
	proxies    map[*ads.Stream]*entry
	streams    uint64        // how many there were, which numbers them
	newest     int64         // the revision at the last comparison; -1 before the first
	push       uint64        // the push at the last comparison
	step       int64         // the revision that was reported of all in step
	stepPush   uint64        // the push that was, for resources of registries
	brought    uint64        // the newest push that was reported to bring one
	audited    uint64        // the push when audiences were looked at last
	auditBegan time.Time     // when that was
	auditTook  time.Duration // how long it took
	auditSize  int           // how many resources there were
	comparison uint64        // the number of the last one of all proxies
	moves      uint64        // what the watch had counted before it
	uneven     bool          // at the last comparison some were not in step, or there was something to look at soon
	outOfStep  []*ads.Stream // those that were not
	singly     singly
	sources    sources

	times    *rolloutv1.Times // that were reported; nil for none
	problems *rolloutv1.Problems
	turn     uint64    // of the engine, when the problems were looked at last
	surveyed time.Time // when that was, of all that nobody waits for
}

// entry is one proxy.
type entry struct {
	number  uint64
	course  *course
	runs    int64            // the newest revision that it is known to run; -1 for none
	push    uint64           // the newest push that it is known to run; 0 for none
	told    *rolloutv1.Proxy // what was reported; nil for nothing
	running ads.Running      // when it was looked at last
	seen    uint64           // the last comparison at which it was connected
	circle  uint32           // by which audiences mean it
}

func newLedger(of Proxies) *ledger {
	w := newWatch()
	of.Watch(w)
	return &ledger{of: of, watch: w, proxies: map[*ads.Stream]*entry{}, newest: -1, singly: newSingly()}
}

// begin forgets what was reported, for a new report.
func (l *ledger) begin() {
	l.step, l.uneven, l.times, l.problems, l.turn, l.surveyed = 0, true, nil, nil, 0, time.Time{}
	l.stepPush, l.brought, l.audited, l.auditBegan = 0, 0, 0, time.Time{}
	l.of.Audiences.Reset()
	l.of.Versions.Reset()
	l.of.Statuses.Reset()
	for _, e := range l.proxies {
		e.told = nil
	}
	l.watch.renew()
}

// forget forgets what the proxies run.
func (l *ledger) forget() {
	for _, e := range l.proxies {
		e.runs = -1
	}
}

// differences compares all proxies, and returns the messages that report what differs from what was
// reported before. They count as reported.
//
// A proxy is in step if it runs the newest revision. While some do not yet, the revision that was
// the newest at the comparison before is enough: each change has an interval to arrive, and while
// many follow one another nobody falls out of step who keeps up. If many proxies need longer, an
// older revision is enough (singly.go).
func (l *ledger) differences(now time.Time) []*rolloutv1.ReportRequest {
	newest := l.newestNow() // before the streams are asked: what they run is at least this
	streams, moves := l.all()
	before, behind := l.observe(streams, newest)
	l.newest, l.moves = newest, moves
	l.singly.note(newest, now)
	step := newest
	if behind && before >= 0 {
		step = l.common(streams, before, now)
	}
	audiences, _ := l.audiences(streams, now)
	return l.report(streams, l.gone(), audiences, step, now)
}

// newestNow is the revision that all proxies have been offered. It notes by which push.
func (l *ledger) newestNow() int64 {
	l.push = l.of.Push()
	return l.of.Revision()
}

// all begins a comparison of all proxies. It returns their streams, and what the watch had counted
// before.
func (l *ledger) all() (streams []*ads.Stream, moves uint64) {
	moves = l.watch.movesNow()
	l.comparison++
	return l.of.Streams(), moves
}

// rests reports whether all proxies were in step at the last comparison, and nothing has happened
// since.
func (l *ledger) rests() bool { return l.watch.quiet() && !l.uneven }

// report returns the messages about the proxies of a comparison.
func (l *ledger) report(streams []*ads.Stream, gone []uint64, audiences []*rolloutv1.Audience, step int64, now time.Time) []*rolloutv1.ReportRequest {
	var proxies []*rolloutv1.Proxy
	var refusing []*course
	var apart []*ads.Stream
	versions, push := l.versions(now), l.commonPush(streams, step, now)
	statuses := l.statuses() // after the versions that they are of
	for _, s := range streams {
		e := l.proxies[s]
		if e.stays(step, push) {
			continue
		}
		state := e.state(step, push, now)
		if state.GetState() == rolloutv1.Proxy_STATE_REFUSED {
			state.Refusals = l.refusals(s, e.circle)
			refusing = append(refusing, e.course)
		}
		if state.GetState() != rolloutv1.Proxy_STATE_IN_STEP {
			apart = append(apart, s)
		}
		e.course.setApart(state.GetState() == rolloutv1.Proxy_STATE_REFUSED || state.GetState() == rolloutv1.Proxy_STATE_SILENT)
		if e.told == nil && e.running.Fresh && state.State == rolloutv1.Proxy_STATE_SENDING && now.Sub(s.Since()) < newcomerTime {
			continue
		}
		if !proto.Equal(state, e.told) && !l.waits(e, state, now) {
			if p := l.described(s, e, state); p != nil {
				proxies = append(proxies, p)
			}
		}
	}
	l.outOfStep, l.uneven = apart, l.grown() || step < l.newest || push < l.brought || len(apart) > 0
	l.sources.forgetUnused()
	last := &rolloutv1.ReportRequest{Revision: step, Push: push, Gone: gone}
	rollouts := l.watch.rollouts(refusing, l.surveyDue(now))
	l.survey(last, now)
	return l.messages(last, parts{proxies, rollouts, audiences, versions, statuses})
}

// waits reports whether the report of a proxy that is being sent something can wait. What was
// reported before stays true as long as the proxy runs that revision or a newer one.
func (l *ledger) waits(e *entry, state *rolloutv1.Proxy, now time.Time) bool {
	if e.told == nil || state.GetState() != rolloutv1.Proxy_STATE_SENDING || l.singly.may(now) {
		return false
	}
	return e.told.GetState() == rolloutv1.Proxy_STATE_SENDING && e.told.GetRuns() <= state.GetRuns()
}

// observe notes what each proxy runs. It returns which revision was the newest at the comparison
// before, -1 for none, and whether proxies are behind the newest now.
func (l *ledger) observe(streams []*ads.Stream, newest int64) (before int64, behind bool) {
	before = l.newest
	if newest < before { // the mesh was replaced by an older one
		l.forget()
		before = -1
	}
	for _, s := range streams {
		e := l.proxies[s]
		if e == nil {
			l.streams++
			e = &entry{number: l.streams, course: l.watch.courseOf(s.Subscriber()), runs: -1}
			l.proxies[s] = e
		}
		e.observe(s, newest, l.push)
		e.seen = l.comparison
		behind = behind || e.runs < newest && e.running.Refused == 0 && e.told.GetState() != rolloutv1.Proxy_STATE_SILENT
	}
	return before, behind
}

// observe notes what the proxy runs.
func (e *entry) observe(s *ads.Stream, newest int64, push uint64) {
	e.running = s.Running()
	switch e.running.Snapshot {
	case nil: // it runs nothing yet, or may have lost what it ran
		e.runs, e.push = -1, 0
	case s.Subscriber().Snapshot(): // also if the latest changes concern others
		e.runs, e.push = max(e.runs, newest), max(e.push, push)
	default:
		e.runs, e.push = max(e.runs, revisionOf(e.running.Snapshot)), max(e.push, e.running.Snapshot.Push)
	}
}

// stays reports whether the proxy was reported to be in step, and still is: nearly all are, nearly
// always, so this has to be cheap.
func (e *entry) stays(step int64, push uint64) bool {
	return e.told.GetState() == rolloutv1.Proxy_STATE_IN_STEP && e.running.Refused == 0 && e.runs >= step && e.push >= push && e.told.GetCircle() == e.circle
}

// state is the present state of the proxy.
func (e *entry) state(step int64, push uint64, now time.Time) *rolloutv1.Proxy {
	running := e.running
	state := &rolloutv1.Proxy{Stream: e.number, State: rolloutv1.Proxy_STATE_SENDING, Sent: revisionOf(running.Target), Runs: max(0, e.runs), Refused: uint32(running.Refused), Circle: e.circle}
	if push > 0 { // else no registry has anything
		state.Push = e.push
	}
	switch {
	case running.Refused > 0:
		state.State = rolloutv1.Proxy_STATE_REFUSED
	case e.runs >= step && e.push >= push:
		state.State, state.Sent, state.Runs, state.Push = rolloutv1.Proxy_STATE_IN_STEP, 0, 0, 0
	case e.silent(now):
		state.State = rolloutv1.Proxy_STATE_SILENT
	}
	return state
}

// silent reports whether the proxy has not answered for long.
func (e *entry) silent(now time.Time) bool {
	return !e.running.Unanswered.IsZero() && now.Sub(e.running.Unanswered) > silentAfter
}

func revisionOf(s *served.Snapshot) int64 {
	if s == nil {
		return 0
	}
	return numberOf(s.Revision)
}

func numberOf(revision string) int64 {
	number, err := strconv.ParseInt(revision, 10, 64)
	if err != nil {
		return 0 // not of the engine
	}
	return number
}

// described records a state as reported, and returns it as it is sent: with who the proxy is, if
// that was not reported yet. It returns nil for a proxy that has just left.
func (l *ledger) described(s *ads.Stream, e *entry, state *rolloutv1.Proxy) *rolloutv1.Proxy {
	first := e.told == nil
	if !first {
		e.told = state
		return state
	}
	member, connected := l.of.Member(s.Subscriber())
	if !connected {
		return nil
	}
	e.told = state
	sent := proto.CloneOf(state)
	sent.Description = l.of.describe(s, member)
	return sent
}

// gone forgets the proxies that were not there at this comparison, and returns those that were reported.
func (l *ledger) gone() []uint64 {
	var gone []uint64
	for s, e := range l.proxies {
		if e.seen == l.comparison {
			continue
		}
		if e.told != nil {
			gone = append(gone, e.number)
		}
		delete(l.proxies, s)
	}
	return gone
}
