package served

import "sync"

// Subscriber holds the newest snapshot for one stream. If snapshots come faster than the stream
// sends them, the newest replaces the others.
type Subscriber struct {
	mu      sync.Mutex
	latest  *Snapshot     // nil before the first
	news    *News         // the oldest that the stream has not taken
	changed chan struct{} // has room for one signal
	onClose func()        // called by Close

	// Follower is told when the stream's client runs a snapshot; nil if nobody is. Set it before the
	// stream has the subscriber.
	Follower Follower
}

// Follower is told what a client runs. It must not block.
type Follower interface {
	// Ran is called when the client runs a snapshot: it has accepted everything of it.
	Ran(*Snapshot)
}

// NewSubscriber returns a subscriber without a snapshot. Its stream holds every request until the
// first Offer.
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

// Take returns the newest snapshot, and the oldest news since the previous Take.
func (s *Subscriber) Take() (*Snapshot, *News) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.news
	s.news = nil
	return s.latest, news
}

// Changed returns a channel that receives when there may be a newer snapshot. Only one goroutine
// may read it.
func (s *Subscriber) Changed() <-chan struct{} { return s.changed }

// Ran tells that the client runs a snapshot.
func (s *Subscriber) Ran(snapshot *Snapshot) {
	if s.Follower != nil {
		s.Follower.Ran(snapshot)
	}
}

// Close ends the subscription.
func (s *Subscriber) Close() {
	if s.onClose != nil {
		s.onClose()
	}
}
