package ads

import "time"

// flush sends what may be sent now of every type, with at most one unanswered response per type.
func (s *Stream) flush() error {
	s.wake = time.Time{}
	for again := true; again; {
		again = false
		for _, sub := range s.subs {
			if sub.pending != "" && !s.overtake(sub) {
				continue
			}
			sent, err := s.inTurn(sub)
			if err != nil {
				return err
			}
			again = again || sent
		}
	}
	return nil
}

// inTurn waits for the stream's turn to push and sends the next step of a type, if there is one.
func (s *Stream) inTurn(sub *subscription) (bool, error) {
	if e := s.allowed(sub); !sub.losing() && (sub.settled(e) || s.heldBack(sub)) {
		return false, nil
	}
	if !s.turn.take(s.ctx) {
		return false, s.ctx.Err()
	}
	defer s.turn.giveBack()
	return s.step(sub)
}

// step sends the next step of a type, if there is one.
func (s *Stream) step(sub *subscription) (bool, error) {
	before, repeated := sub.have, sub.repeated
	if lost := sub.losses(); len(lost) > 0 {
		return true, s.send(sub, step{removed: lost, before: before}, false)
	}
	e, due := s.allowed(sub), sub.unanswered
	if !sub.open(e) || s.heldBack(sub) {
		return false, nil
	}
	var st step
	switch regular := sub.regular(e); {
	case sub.untried(e) && (!regular || !sub.tried):
		st, due = sub.try(e, s.whole(sub)), false
	case regular:
		st = sub.advance(e)
		s.tellAbsent(sub, st, before)
	default:
		return false, nil
	}
	sub.owns.sends(st.changed)
	s.refer(sub, st) // may ask for a type that this pass of flush is already past
	s.releaseRetained()
	s.updateStatus(sub)
	st.before, st.repeated = before, repeated
	if (s.hurried || sub.overtaken > 0) && len(st.removed) > 0 {
		s.losesWhatRan()
	}
	return true, s.send(sub, st, due)
}

// wakeAt schedules a wake-up.
func (s *Stream) wakeAt(t time.Time) {
	if s.wake.IsZero() || t.Before(s.wake) {
		s.wake = t
	}
}

// waking returns a channel that fires at the next wake-up, or nil if none is scheduled.
func (s *Stream) waking() <-chan time.Time {
	switch {
	case s.wake.IsZero():
		return nil
	case s.alarm == nil:
		s.alarm = time.NewTimer(time.Until(s.wake))
	default:
		s.alarm.Reset(time.Until(s.wake))
	}
	return s.alarm.C
}
