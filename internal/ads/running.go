package ads

import (
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Running is what a client runs, as far as its answers tell.
type Running struct {
	// Snapshot is the newest one of which the client has accepted everything; nil before the first,
	// and when the client may have lost some of it since.
	Snapshot *served.Snapshot
	// Target is the one that the client is brought to, or was brought to last; nil before the
	// first.
	Target *served.Snapshot
	// Refused is how many resources the client refuses, or may refuse: some were sent together.
	Refused int
	// Unanswered is when the oldest response was sent that has no answer; zero if all have one.
	Unanswered time.Time
	// Fresh says that the client came without anything from an earlier stream. Of a client that
	// speaks state of the world nobody knows.
	Fresh bool
}

// Running returns what the client runs. It is safe for concurrent use.
func (s *Stream) Running() Running {
	s.status.mu.Lock()
	defer s.status.mu.Unlock()
	r := Running{Snapshot: s.status.running, Target: s.status.target, Fresh: s.form.Incremental() && !s.status.returned}
	for _, sub := range s.status.types {
		r.Refused += len(sub.record.refused) + int(sub.record.doubts)
		if at := sub.record.sent.At; sub.record.unanswered && (r.Unanswered.IsZero() || at.Before(r.Unanswered)) {
			r.Unanswered = at
		}
	}
	return r
}

// noteRunning publishes the target as what the client runs, once that is so. While a change is
// under way it is not.
func (s *Stream) noteRunning() {
	if s.target == s.ran || !s.runsTarget() {
		return
	}
	s.ran, s.hurried = s.target, false
	s.status.runs(s.target)
	s.view.Ran(s.target)
}

// losesWhatRan publishes that the client may run no snapshot any more: it was told to remove what a
// newer one replaces, and may refuse that.
func (s *Stream) losesWhatRan() {
	s.ran = nil
	s.status.runs(nil)
}

// runsTarget reports whether the client has accepted everything of the target that it asks for, and
// has asked for all that it needs. Envoy asks for what a resource refers to before it answers.
func (s *Stream) runsTarget() bool {
	for _, typeURL := range s.cfg.Essential {
		if !slices.ContainsFunc(s.subs, func(sub *subscription) bool { return sub.canonical == typeURL }) {
			return false
		}
	}
	for _, sub := range s.subs {
		if sub.pending != "" || sub.outOfSync || sub.quarantine != nil || !sub.settled(everything) {
			return false
		}
	}
	return !s.hurried || s.hasAllReferences()
}

// hasAllReferences reports whether the client has what its resources refer to. A plan takes care of
// that, unless it went on without the client.
func (s *Stream) hasAllReferences() bool {
	for _, sub := range s.subs {
		for r := range sub.have.All() {
			if slices.ContainsFunc(r.Refs, func(ref served.Ref) bool { return !s.arrived(ref) }) {
				return false
			}
		}
	}
	return true
}
