package ads

import (
	"sync"
	"time"
)

// Snapshot is everything that a stream may see at one moment. It is immutable.
type Snapshot struct {
	// Revision names the state. It travels as the version of a response.
	Revision string
	// Sets has the resources by canonical type URL. A type that is absent has none.
	Sets map[string]*Set
	// Withheld are types of which nothing is known. Requests for them wait: clients keep what they have.
	Withheld map[string]bool
	// Without is the same snapshot for those who are not to see all of it; nil where all may.
	Without *Snapshot
}

// News is a change that has led to a snapshot. Who hears of responses and of answers to them is told of it by this pointer.
type News struct {
	Committed time.Time // where it was made, by the clock there; zero if that is not known
	Arrived   time.Time // here
}

// Subscriber hands the newest snapshot to one stream. Snapshots that come faster than the stream can send replace one
// another.
type Subscriber struct {
	mu      sync.Mutex
	latest  *Snapshot
	news    *News // the oldest that the stream has not taken
	changed chan struct{}
	onClose func()
}

// NewSubscriber returns a subscriber that has no snapshot yet; its stream holds every request until it is offered one.
func NewSubscriber(onClose func()) *Subscriber {
	return &Subscriber{changed: make(chan struct{}, 1), onClose: onClose}
}

// Offer makes a snapshot the newest. It never blocks.
func (s *Subscriber) Offer(snap *Snapshot) { s.OfferNews(snap, nil) }

// OfferNews offers a snapshot of which it is known what has led to it.
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

// take returns the newest snapshot, and the oldest news that it has for who took the one before.
func (s *Subscriber) take() (*Snapshot, *News) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.news
	s.news = nil
	return s.latest, news
}

// Changed receives when there may be a newer snapshot. It has one reader.
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

// Subscribe returns a subscriber that has the newest snapshot already.
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
