package ads

import (
	"sync"
	"time"
)

// Snapshot is everything that a stream may see at one moment. It is immutable.
type Snapshot struct {
	// Revision names the state. Responses carry it as their version.
	Revision string
	// Sets has the resources by canonical type URL. An absent type has none.
	Sets map[string]*Set
	// Withheld are types of which nothing is known yet. Requests for them wait, and clients keep what they
	// have.
	Withheld map[string]bool
	// Without is the same snapshot for clients that may not see all of it; nil if all may.
	Without *Snapshot
}

// News describes a change that led to a snapshot. Observers get it with the responses that deliver the change
// and with their answers.
type News struct {
	Committed time.Time // by the clock of where it was made; zero if unknown
	Arrived   time.Time // at this program
}

// Subscriber holds the newest snapshot for one stream. If snapshots come faster than the stream sends them,
// the newest replaces the others.
type Subscriber struct {
	mu      sync.Mutex
	latest  *Snapshot
	news    *News // the oldest that the stream has not taken
	changed chan struct{}
	onClose func()
}

// NewSubscriber returns a subscriber without a snapshot. Its stream holds every request until the first
// Offer.
func NewSubscriber(onClose func()) *Subscriber {
	return &Subscriber{changed: make(chan struct{}, 1), onClose: onClose}
}

// Offer makes a snapshot the newest. It never blocks.
func (s *Subscriber) Offer(snap *Snapshot) { s.OfferNews(snap, nil) }

// OfferNews is Offer with the change that led to the snapshot.
func (s *Subscriber) OfferNews(snap *Snapshot, news *News) {
	s.mu.Lock()
	s.latest = snap
	if s.news == nil {
		s.news = news
	}
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default: // a wake-up is already waiting, and will find this snapshot
	}
}

// Snapshot returns the newest snapshot, nil before the first.
func (s *Subscriber) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest
}

// take returns the newest snapshot, and the oldest news since the previous take.
func (s *Subscriber) take() (*Snapshot, *News) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.news
	s.news = nil
	return s.latest, news
}

// Changed returns a channel that receives when there may be a newer snapshot. Only one goroutine may read it.
func (s *Subscriber) Changed() <-chan struct{} { return s.changed }

// Close ends the subscription.
func (s *Subscriber) Close() {
	if s.onClose != nil {
		s.onClose()
	}
}

// Topic offers the same snapshots to many subscribers.
type Topic struct {
	mu      sync.Mutex
	current *Snapshot
	subs    map[*Subscriber]struct{}
}

// Publish makes a snapshot the newest for every subscriber, present and future.
func (t *Topic) Publish(snap *Snapshot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current = snap
	for s := range t.subs {
		s.Offer(snap)
	}
}

// Current returns what was published last, nil before the first.
func (t *Topic) Current() *Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current
}

// Subscribe returns a subscriber that already has the newest snapshot.
func (t *Topic) Subscribe() *Subscriber {
	t.mu.Lock()
	defer t.mu.Unlock()
	var s *Subscriber
	s = NewSubscriber(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.subs, s)
	})
	if t.subs == nil {
		t.subs = map[*Subscriber]struct{}{}
	}
	t.subs[s] = struct{}{}
	if t.current != nil {
		s.Offer(t.current)
	}
	return s
}
