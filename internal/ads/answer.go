package ads

import "github.com/pgmesh/pgmesh/internal/terse"

// answered takes in what a client says to the last part of a response, by which it has answered all of it.
func (s *Stream) answered(sub *subscription, r *request) {
	s.spoken = true
	if r.failure != nil {
		sub.accuse(r.nonce)
		s.refused(sub, r)
	}
	if sub.pending, sub.overtaken = "", 0; !sub.partRefused {
		sub.astray = false
		sub.owns.accepted()
		after := s.account.answered(sub, "", false)
		s.cfg.Observer.Acked(s, Verdict{TypeURL: sub.typeURL, Revision: sub.revision, After: after, News: sub.news})
	}
	if s.cfg.Isolate && sub.delivery != nil {
		s.judge(sub, sub.delivery, r.failure.GetMessage())
	}
}

// judge draws the conclusions from the answer to all of a response.
func (s *Stream) judge(sub *subscription, d *delivery, reason string) {
	sub.delivery = nil
	sub.absolve(d.accepted())
	sub.relieve(d.removed, d.remaining)
	if accused := sub.stillWanted(d.accused); len(accused) > 0 {
		if !sub.suspects(accused) {
			s.keep(sub)
		}
		sub.removeAgain(d.remaining, s.whole(sub))
		if sub.isolate(accused, d, reason, s.whole(sub)) {
			s.cfg.Log.Warn("a client refuses a resource and keeps what it had of it; everything else goes on. Correct the resource",
				"node", s.node.GetId(), "type", sub.typeURL, "resource", accused[0].Name, "version", accused[0].Version, "reason", longest(reason))
		}
	}
	sub.reprieve()
	s.release()
}

// longestReason is how much of a refusal is remembered: a client may say what it likes.
const longestReason = 1024

func longest(reason string) string { return terse.Kept(reason, longestReason) }

func (s *Stream) refused(sub *subscription, r *request) {
	s.progress.refused(sub)
	reason := longest(r.failure.GetMessage())
	after := s.account.answered(sub, reason, true)
	s.cfg.Observer.Nacked(s, Verdict{TypeURL: sub.typeURL, Revision: sub.revision, Reason: reason, After: after, News: sub.news})
	s.cfg.Log.Warn("a client refused a response and keeps what it had",
		"node", s.node.GetId(), "type", sub.typeURL, "revision", sub.revision, "reason", reason)
}

// note tells others what has become of a subscription.
func (s *Stream) note(sub *subscription) {
	if more := s.account.note(sub); more != 0 {
		s.cfg.Observer.Refusing(s, sub.typeURL, more)
	}
}

// refusesNoMore takes what the client refused out of what observers count: it is gone.
func (s *Stream) refusesNoMore() {
	for _, sub := range s.subs {
		if n := len(sub.record.refused); n > 0 {
			s.cfg.Observer.Refusing(s, sub.typeURL, -n)
		}
	}
}
