package ads

import (
	"slices"
	"strconv"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/ads/wire"
)

// send sends a step. If a response is due it sends even an empty one.
func (s *Stream) send(sub *subscription, st step, due bool) error {
	resources, removed := st.changed, st.removed
	if voids := s.voids(sub, st.absent); len(voids) > 0 {
		resources = slices.Concat(resources, voids)
	}
	switch {
	case s.piecemeal(sub) && len(resources) == 0:
		return nil // this form cannot express removals
	case st.empty() && !due:
		return nil
	case s.whole(sub):
		resources, removed = sub.have.Known(), nil
	}
	if s.cfg.Quarantine {
		sub.delivery = &delivery{step: st}
	}
	return s.sendParts(sub, resources, removed)
}

// sendParts sends a response, in several messages if it is large and the form allows it. The
// messages follow one another without waiting: gRPC's flow control holds back what the client does
// not read, and nothing is copied.
func (s *Stream) sendParts(sub *subscription, resources []*served.Resource, removed []string) error {
	most := 0
	if s.form.Incremental() {
		most = s.cfg.MostBytes
	}
	sub.revision, sub.oldest, sub.partRefused, sub.largest = s.target.Revision, s.nonce+1, false, 0
	sub.news = s.news
	sub.releaseMemory()
	s.moved()
	first := true
	for p := range wire.Parts(resources, removed, most) {
		s.nonce++
		sub.pending = strconv.FormatUint(s.nonce, 10)
		m := s.form.Encode(&wire.Response{
			TypeURL: sub.typeURL, Revision: sub.revision, Nonce: sub.pending, Resources: p.Resources, Removed: p.Removed,
		})
		reported := Message{TypeURL: sub.typeURL, Revision: sub.revision, Resources: len(p.Resources), Removed: len(p.Removed), Bytes: m.Encoded().Len(), News: s.news}
		sub.largest = max(sub.largest, reported.Bytes)
		s.status.sent(sub, reported, first)
		s.cfg.Observer.Sent(s, reported)
		if err := s.turn.whileSending(func() error { return s.form.Send(m) }); err != nil {
			return err
		}
		first = false
		if sub.delivery != nil && most > 0 {
			sub.delivery.endPart(p)
		}
	}
	return nil
}

// whole reports whether a response lists everything the client has, so that what is absent is
// removed.
func (s *Stream) whole(sub *subscription) bool { return !s.form.Incremental() && !s.piecemeal(sub) }

// piecemeal reports whether a state-of-the-world response covers only the resources in it. In all
// other types, absent resources are removed.
func (s *Stream) piecemeal(sub *subscription) bool {
	return !s.form.Incremental() && !sub.wildcard && s.cfg.Named(sub.canonical)
}
