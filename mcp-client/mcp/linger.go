package mcp

import (
	"time"

	"github.com/pgmesh/pgmesh/kinds"
)

// unheard are the kinds without an envelope that the server has left unanswered so far. Galley, for one, answers in an order of its own.
func (s *session) unheard() (left []*kinds.Kind) {
	for _, q := range s.asked {
		if q.kind.Bare && !q.answered && !s.confirmed(q.kind) {
			left = append(left, q.kind)
		}
	}
	return left
}

// lingers reports whether the first batch waits for more.
func (s *session) lingers() bool {
	if s.delivered || s.lingered || s.client.cfg.Linger == 0 || len(s.unheard()) == 0 {
		return false
	}
	if s.linger == nil {
		s.linger = time.NewTimer(s.client.cfg.Linger)
	}
	return true
}

// lingering fires when the first batch waits no longer.
func (s *session) lingering() <-chan time.Time {
	if s.linger == nil {
		return nil
	}
	return s.linger.C
}

// goWithout delivers the first batch without what was waited for.
func (s *session) goWithout() error {
	s.lingered = true
	if left := s.unheard(); len(left) > 0 && !s.delivered && s.client.cfg.Unheard != nil {
		s.client.cfg.Unheard(left)
	}
	return s.deliverUnmarked()
}
