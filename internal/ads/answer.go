package ads

import (
	"github.com/pgmesh/pgmesh/internal/ads/quarantine"
	"github.com/pgmesh/pgmesh/internal/ads/wire"
	"github.com/pgmesh/pgmesh/internal/kit/terse"
)

// answered handles the client's answer to the last part of a response, which answers all of it.
func (s *Stream) answered(sub *subscription, r *wire.Request) {
	s.answeredOnce = true
	if r.Failure != nil {
		sub.suspect(r.Nonce)
		s.refused(sub, r)
	}
	if sub.pending, sub.overtaken = "", 0; !sub.partRefused {
		sub.outOfSync = false
		sub.owns.accepted()
		after := s.status.answered(sub, "", false)
		s.cfg.Observer.Acked(s, Verdict{TypeURL: sub.typeURL, Revision: sub.revision, After: after, News: sub.news})
	}
	if s.cfg.Quarantine && sub.delivery != nil {
		s.resolve(sub, sub.delivery, r.Failure.GetMessage())
	}
}

// cutReason is as much of a refusal's reason as is kept.
func cutReason(reason string) string { return terse.Kept(reason, quarantine.MaxReason) }

func (s *Stream) refused(sub *subscription, r *wire.Request) {
	s.progress.refused(sub)
	reason := cutReason(r.Failure.GetMessage())
	after := s.status.answered(sub, reason, true)
	s.cfg.Observer.Nacked(s, Verdict{TypeURL: sub.typeURL, Revision: sub.revision, Reason: reason, After: after, News: sub.news})
	s.cfg.Log.Warn("a client refused a response and keeps what it had",
		s.cfg.Called, s.node.GetId(), "type", sub.typeURL, "revision", sub.revision, "reason", reason)
}

// updateStatus publishes the state of a subscription.
func (s *Stream) updateStatus(sub *subscription) {
	if more := s.status.updateStatus(sub); more != 0 {
		s.cfg.Observer.Refusing(s, sub.typeURL, more)
	}
}

// refusesNoMore tells observers that this client's refusals are gone, because its stream has ended.
func (s *Stream) refusesNoMore() {
	for _, sub := range s.subs {
		if n := len(sub.record.refused); n > 0 {
			s.cfg.Observer.Refusing(s, sub.typeURL, -n)
		}
	}
}
