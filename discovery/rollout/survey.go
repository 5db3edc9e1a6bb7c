package rollout

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/kinds"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

const (
	// surveyInterval is how often is looked at what nobody waits for.
	surveyInterval = time.Second
	// mostProblems bounds a message, as the protocol does.
	mostProblems = 1000
)

// survey adds to a message what nobody waits for, if it differs: how long changes took, and what is
// wrong.
func (l *ledger) survey(m *rolloutv1.ReportRequest, streams []*ads.Stream, now time.Time) {
	if now.Sub(l.surveyed) < surveyInterval {
		l.uneven = true // look again soon
		return
	}
	l.surveyed = now
	if times := l.timesOf(streams); !proto.Equal(times, l.times) && (l.times != nil || len(times.GetStreams()) > 0) {
		m.Times, l.times = times, times
	}
	if problems, ok := l.of.problems(); ok && !proto.Equal(problems, l.problems) && (l.problems != nil || len(problems.GetProblems()) > 0) {
		m.Problems, l.problems = problems, problems
	}
}

// timesOf tells how long the last change took of each proxy that was reported.
func (l *ledger) timesOf(streams []*ads.Stream) *rolloutv1.Times {
	took := make(map[uint64]time.Duration, len(streams))
	for _, s := range streams {
		if after := l.watch.took(s.Subscriber()); after > 0 && l.proxies[s].told != nil {
			took[l.proxies[s].number] = after
		}
	}
	times := &rolloutv1.Times{Streams: slices.Sorted(maps.Keys(took))}
	for _, stream := range times.GetStreams() {
		times.Took = append(times.Took, uint64(took[stream].Microseconds()))
	}
	return times
}

// problems are those that discovery knows of; not ok before the first mesh.
func (p Proxies) problems() (*rolloutv1.Problems, bool) {
	if p.Problems == nil {
		return nil, false
	}
	all, ok := p.Problems()
	if !ok {
		return nil, false
	}
	out := &rolloutv1.Problems{}
	for _, one := range all {
		if len(out.Problems) == mostProblems {
			break
		}
		if one.Code != push.Refused { // of a proxy, not of a resource: refusals tell of it
			out.Problems = append(out.Problems, &rolloutv1.Problem{Resource: resourceOf(one.Of), Path: one.Path, Code: string(one.Code), Message: one.Reason})
		}
	}
	return out, true
}

func resourceOf(k kinds.Key) *rolloutv1.Resource {
	return &rolloutv1.Resource{ApiGroup: k.Kind.Group, Kind: k.Kind.Name, Namespace: k.Namespace, Name: k.Name}
}
