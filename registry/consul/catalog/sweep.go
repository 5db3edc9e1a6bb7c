package catalog

import "time"

// sweep looks through all services that are not watched. It takes half of the time at most.
type sweep struct {
	wanted bool
	left   int // how many are to be looked at in the one that runs
	begun  time.Time
	after  time.Time // when the next one may begin
}

// want looks through the services, at once or when the sweep that runs has ended: it may have passed
// by what has changed.
func (w *sweep) want(s *session) {
	w.wanted = true
	if w.left > 0 || s.unread > 0 {
		return
	}
	if pause := time.Until(w.after); pause > 0 {
		time.AfterFunc(pause, func() { _ = s.do(func() error { w.begin(s); return nil }) }) //nolint:errcheck // the session may have ended
		return
	}
	w.begin(s)
}

func (w *sweep) begin(s *session) {
	if !w.wanted || w.left > 0 {
		return
	}
	w.wanted = false
	cold := s.watches.byChange()
	w.left, w.begun = len(cold), time.Now()
	s.queue.readLater(cold)
}

// lookedAt is called for each service that was looked at.
func (w *sweep) lookedAt(s *session) {
	if w.left--; w.left > 0 {
		return
	}
	w.after = time.Now().Add(time.Since(w.begun))
	if w.wanted {
		w.want(s)
	}
}
