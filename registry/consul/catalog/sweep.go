package catalog

import "time"

// sweep looks through all that is not watched, for what has changed: service by service, or node by
// node where there are fewer of them. It takes half of the time at most.
type sweep struct {
	wanted bool
	left   int // how many are to be looked at in the one that runs
	begun  time.Time
	after  time.Time // when the next one may begin
	// at are the services by nodes, with how many instances they have there, as the sweep began.
	at map[string]map[string]int
}

// want begins a sweep, at once or when the one that runs has ended: that may have passed by what has
// changed.
func (w *sweep) want(s *session) {
	w.wanted = true
	if w.left > 0 || s.unread > 0 {
		return
	}
	if pause := time.Until(w.after); pause > 0 {
		time.AfterFunc(pause, func() { _ = s.do(func() error { w.begin(s); return nil }) }) // the session may have ended
		return
	}
	w.begin(s)
}

func (w *sweep) begin(s *session) {
	if !w.wanted || w.left > 0 {
		return
	}
	w.wanted = false
	all := s.watches.byChange()
	if len(s.nodes) < len(all) {
		all, w.at = s.byNode()
	}
	w.left, w.begun = len(all), time.Now()
	s.queue.readLater(all)
}

// lookedAt is called for each that was looked at.
func (w *sweep) lookedAt(s *session) {
	if w.left--; w.left > 0 {
		return
	}
	w.after, w.at = time.Now().Add(time.Since(w.begun)), nil
	if w.wanted {
		w.want(s)
	}
}
