package ads

import (
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/ads/quarantine"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// TypeState is the state of one type on one stream at one moment.
type TypeState struct {
	TypeURL  string // as the client wrote it
	Wildcard bool
	Names    int // how many resources it asks for by name

	// Has is what the client has once it has applied everything that was sent. Of resources from an
	// earlier stream, only names and versions are known.
	Has *served.Set

	Sent     Sent   // the last response
	Accepted Answer // the last acceptance
	Rejected Answer // the last refusal
	// Refused are the resources that the client refuses. The caller must not change the list.
	Refused []quarantine.Refused
	// InDoubt is the number of resources that were refused together with others and are still being
	// tried.
	InDoubt int
	// Unanswered says that the client has not answered the last response.
	Unanswered bool
	// Behind says that there is something newer than what was sent, which waits for an answer or
	// for its stage in the plan.
	Behind bool
}

// Sent describes a response. The zero value is none.
type Sent struct {
	Revision           string
	At                 time.Time
	Resources, Removed int
	Bytes              int
}

// Answer is a client's answer to a response. The zero value is none.
type Answer struct {
	Revision string // that of the response
	At       time.Time
	Reason   string // of a refusal
}

// StreamState is how far a stream has come with the current change.
type StreamState struct {
	Revision string // the revision that is being sent
	Newest   string // the newest revision, which is sent after that
	Stage    int    // the stage of the plan, from 1; 0 while no change is on its way
	Stages   int
	Since    time.Time // when it came to this stage, or to this revision
}

// streamStatus is what a stream publishes about itself. It is written whenever something is sent or
// answered; mu is held only long enough to copy.
type streamStatus struct {
	mu              sync.Mutex
	state           StreamState
	target, running *served.Snapshot // as in Running
	returned        bool             // the client has something from an earlier stream
	types           []*subscription  // mu guards the list and the records, not the rest of the subscriptions
}

// record is what a stream publishes about a subscription.
type record struct {
	sent       Sent
	acceptedAt time.Time
	accepted   string  // the revision
	rejected   *Answer // nil for never, as nearly always

	refused      []quarantine.Refused
	have, goal   *served.Set // as in the subscription
	names, asked int32
	doubts       int32
	reach        extent
	wildcard     bool
	unanswered   bool
}

// enter publishes a new subscription.
func (a *streamStatus) enter(sub *subscription) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sub.updateStatus()
	a.types = append(a.types, sub)
}

// updateStatus publishes the current state of a subscription. It returns by how much the number of
// refused resources has grown.
func (a *streamStatus) updateStatus(sub *subscription) (more int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sub.updateStatus()
	if sub.refusalsChanged {
		before := len(sub.record.refused)
		sub.record.refused, sub.refusalsChanged = sub.quarantine.Refused(), false
		more = len(sub.record.refused) - before
	}
	return more
}

// updateStatus copies the subscription's state into its record. The caller holds the lock.
func (s *subscription) updateStatus() {
	r := &s.record
	r.have, r.goal, r.reach = s.have, s.goal, s.reach
	r.names, r.asked = int32(s.named()), int32(len(s.asked))
	r.doubts = int32(s.quarantine.Doubts())
	r.wildcard, r.unanswered = s.wildcard, s.pending != ""
}

// sent adds a message to the published response, or starts a new one if it is the first.
func (a *streamStatus) sent(sub *subscription, m Message, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if first {
		sub.record.sent = Sent{Revision: m.Revision}
	}
	sent := &sub.record.sent
	sent.At = time.Now()
	sent.Resources, sent.Removed, sent.Bytes = sent.Resources+m.Resources, sent.Removed+m.Removed, sent.Bytes+m.Bytes
	sub.updateStatus()
}

// answered records an answer and returns how long it took.
func (a *streamStatus) answered(sub *subscription, reason string, refused bool) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, r := time.Now(), &sub.record
	if refused {
		r.rejected = &Answer{Revision: sub.revision, At: now, Reason: reason}
	} else {
		r.accepted, r.acceptedAt = sub.revision, now
	}
	sub.updateStatus()
	return now.Sub(r.sent.At)
}

// move records the stream's target and stage.
func (a *streamStatus) move(target *served.Snapshot, stage, stages int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = StreamState{Revision: target.Revision, Stage: stage, Stages: stages, Since: time.Now()}
	a.target = target
}

// returns records that the client has something from an earlier stream.
func (a *streamStatus) returns() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.returned = true
}

// runs records what the client runs.
func (a *streamStatus) runs(snapshot *served.Snapshot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running = snapshot
}

// Types returns the state of each type that the client asks for, in the order of its first
// requests. It is safe for concurrent use.
func (s *Stream) Types() []TypeState {
	newest := s.view.Snapshot()
	s.status.mu.Lock()
	defer s.status.mu.Unlock()
	all := make([]TypeState, 0, len(s.status.types))
	for _, sub := range s.status.types {
		all = append(all, sub.state(newest))
	}
	return all
}

func (s *subscription) state(newest *served.Snapshot) TypeState {
	r := &s.record
	t := TypeState{
		TypeURL: s.typeURL, Wildcard: r.wildcard, Names: int(r.names), Has: r.have,
		Sent: r.sent, Accepted: Answer{Revision: r.accepted, At: r.acceptedAt}, Refused: r.refused, InDoubt: int(r.doubts), Unanswered: r.unanswered,
	}
	if r.rejected != nil {
		t.Rejected = *r.rejected
	}
	if newest != nil && !newest.Withheld[s.canonical] {
		t.Behind = r.asked > 0 || r.goal != newest.Sets[s.canonical] || r.reach < everything
	}
	return t
}

// State returns how far the stream has come. It is safe for concurrent use.
func (s *Stream) State() StreamState {
	s.status.mu.Lock()
	defer s.status.mu.Unlock()
	c := s.status.state
	if newest := s.view.Snapshot(); newest != nil {
		c.Newest = newest.Revision
	}
	return c
}
