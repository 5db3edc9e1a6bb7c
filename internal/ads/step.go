package ads

import "time"

// flush sends each type's part of the change that the stream may have now, one unanswered response a type.
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

// inTurn sends what is next of a type, if there is anything, when it is the stream's turn.
func (s *Stream) inTurn(sub *subscription) (bool, error) {
	if e := s.allowed(sub); !sub.losing() && (sub.settled(e) || s.heldBack(sub)) {
		if sub.untried(e) {
			s.wait(sub.isolation)
		}
		return false, nil
	}
	if !s.turn.take(s.ctx) {
		return false, s.ctx.Err()
	}
	defer s.turn.giveBack()
	return s.step(sub)
}

// step sends what is next of a type, if there is anything.
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
	case sub.untried(e) && (!regular || !sub.isolation.tried) && !s.wait(sub.isolation):
		st, due = sub.try(e, s.whole(sub)), false
	case regular:
		st = sub.advance(e)
		sub.reprieve()
		s.tellAbsent(sub, st)
	default:
		return false, nil
	}
	sub.owns.sends(st.changed)
	s.refer(sub, st) // which may ask for something of a type that is passed already
	s.release()
	s.note(sub)
	st.before, st.repeated = before, repeated
	return true, s.send(sub, st, due)
}

// wait has the stream wake up when something may be tried again, if that is not now.
func (s *Stream) wait(i *isolation) bool {
	if !i.paused() {
		return false
	}
	s.wakeAt(i.until)
	return true
}

func (s *Stream) wakeAt(t time.Time) {
	if s.wake.IsZero() || t.Before(s.wake) {
		s.wake = t
	}
}

// waking fires when something may be tried again, or is waited for no longer.
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
