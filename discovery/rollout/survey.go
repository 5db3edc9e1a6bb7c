package rollout

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/kinds"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

const (
	// surveyInterval is how often the survey looks at what nobody waits for. Two seconds after all is
	// quiet, that has to be exact too.
	surveyInterval = time.Second
	// mostProblems bounds a message, as the protocol does.
	mostProblems = 1000
)

// survey adds to a message what nobody waits for, if it differs: how long changes took, and what is
// wrong.
func (l *ledger) survey(m *rolloutv1.ReportRequest, now time.Time) {
	if !l.surveyDue(now) {
		l.uneven = true // look again soon
		return
	}
	l.surveyed = now
	if times := l.timesOf(); !proto.Equal(times, l.times) && (l.times != nil || len(times.GetStreams()) > 0) {
		m.Times, l.times = times, times
	}
	if all, turn, news := l.of.ProblemsSince(l.turn); news {
		l.turn = turn
		if problems := problemsOf(all); !proto.Equal(problems, l.problems) && (l.problems != nil || len(problems.GetProblems()) > 0) {
			m.Problems, l.problems = problems, problems
		}
	}
}

func (l *ledger) surveyDue(now time.Time) bool { return now.Sub(l.surveyed) >= surveyInterval }

// timesOf tells how long the last change took of each proxy that was reported.
func (l *ledger) timesOf() *rolloutv1.Times {
	took := make(map[uint64]time.Duration, len(l.proxies))
	for _, e := range l.proxies {
		if after := e.course.lastTook(); after > 0 && e.told != nil {
			took[e.number] = after
		}
	}
	times := &rolloutv1.Times{Streams: slices.Sorted(maps.Keys(took))}
	for _, stream := range times.GetStreams() {
		times.Took = append(times.Took, uint64(took[stream].Microseconds()))
	}
	return times
}

// problemsOf lists the problems of resources. Refusals tell of the problems of proxies.
func problemsOf(all []push.Problem) *rolloutv1.Problems {
	out := &rolloutv1.Problems{}
	for _, p := range all {
		if len(out.Problems) == mostProblems {
			break
		}
		if p.Code != push.Refused {
			out.Problems = append(out.Problems, &rolloutv1.Problem{Resource: resourceOf(p.Of), Path: p.Path, Code: string(p.Code), Message: p.Reason})
		}
	}
	return out
}

func resourceOf(k kinds.Key) *rolloutv1.Resource {
	return &rolloutv1.Resource{ApiGroup: k.Kind.Group, Kind: k.Kind.Name, Namespace: k.Namespace, Name: k.Name}
}
