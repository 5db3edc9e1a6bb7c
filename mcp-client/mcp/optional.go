package mcp

import (
	"time"

	"github.com/pgmesh/pgmesh/kinds"
)

// unansweredOptional returns the kinds without an envelope that the server has not answered for
// yet. Galley, for one, answers in any order.
func (s *session) unansweredOptional() (left []*kinds.Kind) {
	for _, q := range s.subscriptions {
		if q.kind.Bare && !q.answered && !s.confirmed(q.kind) {
			left = append(left, q.kind)
		}
	}
	return left
}

// waitsForOptional reports whether the first batch has to wait.
func (s *session) waitsForOptional() bool {
	if s.delivered || s.optionalTimedOut || s.client.cfg.OptionalTimeout == 0 || len(s.unansweredOptional()) == 0 {
		return false
	}
	if s.optionalTimer == nil {
		s.optionalTimer = time.NewTimer(s.client.cfg.OptionalTimeout)
	}
	return true
}

// optionalDeadline fires when the first batch must wait no longer.
func (s *session) optionalDeadline() <-chan time.Time {
	if s.optionalTimer == nil {
		return nil
	}
	return s.optionalTimer.C
}

// deliverWithoutOptional delivers the first batch without the kinds it waited for.
func (s *session) deliverWithoutOptional() error {
	s.optionalTimedOut = true
	if left := s.unansweredOptional(); len(left) > 0 && !s.delivered && s.client.cfg.OnUnanswered != nil {
		s.client.cfg.OnUnanswered(left)
	}
	return s.deliverUnmarked()
}
