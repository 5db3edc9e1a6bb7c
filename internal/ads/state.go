package ads

import (
	"sync"
	"time"
)

// TypeState is what has become of one type on one stream, at the moment of asking.
type TypeState struct {
	TypeURL  string // as the client wrote it
	Wildcard bool
	Names    int // how many resources it asks for by name

	// Has is what the client has once it has applied everything that was sent. Of what it brought from an earlier stream, only
	// the names and the versions are known.
	Has *Set

	Sent     Sent   // the last response
	Accepted Answer // the last acceptance
	Rejected Answer // the last refusal
	// Refused are the resources that the client refuses. The list is not to be changed.
	Refused []Refused
	// InDoubt counts the resources of refused responses of which it is being found out whether it is those that the client refuses.
	InDoubt int
	// Unanswered says that the client has not answered the last response.
	Unanswered bool
	// Behind says that there is something newer than what was sent: it waits for an answer, or for its turn in the plan.
	Behind bool
}

// Sent is a response as it was sent. The zero value is none.
type Sent struct {
	Revision           string
	At                 time.Time
	Resources, Removed int
	Bytes              int
}

// Answer is what a client said to a response. The zero value is none.
type Answer struct {
	Revision string // that of the response
	At       time.Time
	Reason   string // of a refusal
}

// Course is how far a stream has come with the change that is on its way.
type Course struct {
	Revision string // what the client is being brought to
	Newest   string // what it will be brought to after that
	Stage    int    // the stage of the plan, from 1; 0 while no change is on its way
	Stages   int
	Since    time.Time // when it came to this stage, or to this revision
}

// account is what a stream tells of itself to others. It is written whenever something is sent or said, under a lock that nobody
// holds for longer than it takes to copy it.
type account struct {
	mu     sync.Mutex
	course Course
	types  []*subscription // whose records the lock guards, and nothing else of them
}

// record is what is told of a subscription.
type record struct {
	sent       Sent
	acceptedAt time.Time
	accepted   string  // the revision
	rejected   *Answer // nil for never, as nearly always

	refused      []Refused
	have, goal   *Set
	names, asked int32
	doubts       int32
	reach        extent
	wildcard     bool
	unanswered   bool
}

// enter makes a subscription known to those who ask.
func (a *account) enter(sub *subscription) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sub.note()
	a.types = append(a.types, sub)
}

// note brings what is told of a subscription up to date. It returns by how many more resources the client refuses than it did.
func (a *account) note(sub *subscription) (more int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sub.note()
	if sub.relist {
		before := len(sub.record.refused)
		sub.record.refused, sub.relist = sub.refusals(), false
		more = len(sub.record.refused) - before
	}
	return more
}

// note must be called under the lock.
func (s *subscription) note() {
	r := &s.record
	r.have, r.goal, r.reach = s.have, s.goal, s.reach
	r.names, r.asked = int32(s.named()), int32(len(s.asked))
	r.doubts = int32(s.isolation.inDoubt())
	r.wildcard, r.unanswered = s.wildcard, s.pending != ""
}

// sent adds a message to what is told of a response, of which it is the first or a further one.
func (a *account) sent(sub *subscription, m Message, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if first {
		sub.record.sent = Sent{Revision: m.Revision}
	}
	sent := &sub.record.sent
	sent.At = time.Now()
	sent.Resources, sent.Removed, sent.Bytes = sent.Resources+m.Resources, sent.Removed+m.Removed, sent.Bytes+m.Bytes
	sub.note()
}

// answered notes an answer and tells how long it took.
func (a *account) answered(sub *subscription, reason string, refused bool) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, r := time.Now(), &sub.record
	if refused {
		r.rejected = &Answer{Revision: sub.revision, At: now, Reason: reason}
	} else {
		r.accepted, r.acceptedAt = sub.revision, now
	}
	sub.note()
	return now.Sub(r.sent.At)
}

// move notes where a stream has come to.
func (a *account) move(revision string, stage, stages int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.course = Course{Revision: revision, Stage: stage, Stages: stages, Since: time.Now()}
}

// Types tells of each type that the client asks for, in the order in which it did so first. Any goroutine may ask.
func (s *Stream) Types() []TypeState {
	newest := s.view.Snapshot()
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	all := make([]TypeState, 0, len(s.account.types))
	for _, sub := range s.account.types {
		all = append(all, sub.state(newest))
	}
	return all
}

func (s *subscription) state(newest *Snapshot) TypeState {
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

// Course tells how far the stream has come. Any goroutine may ask.
func (s *Stream) Course() Course {
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	c := s.account.course
	if newest := s.view.Snapshot(); newest != nil {
		c.Newest = newest.Revision
	}
	return c
}
