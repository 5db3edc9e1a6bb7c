package served

import "sync"

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
