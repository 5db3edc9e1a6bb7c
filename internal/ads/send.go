package ads

import "strconv"

// send sends a step. If a response is due it sends even an empty one.
func (s *Stream) send(sub *subscription, st step, due bool) error {
	resources, removed := st.changed, st.removed
	switch {
	case s.piecemeal(sub) && len(resources) == 0:
		return nil // this form cannot express removals
	case st.empty() && !due:
		return nil
	case s.whole(sub):
		resources, removed = sub.have.known(), nil
	}
	if s.cfg.Isolate {
		sub.delivery = &delivery{step: st}
	}
	return s.sendParts(sub, resources, removed)
}

// sendParts sends a response, in several messages if it is large and the form allows it. The messages follow
// one another without waiting: gRPC's flow control holds back what the client does not read, and nothing is
// copied.
func (s *Stream) sendParts(sub *subscription, resources []*Resource, removed []string) error {
	most := 0
	if s.wire.incremental() {
		most = s.cfg.MostBytes
	}
	sub.revision, sub.oldest, sub.partRefused, sub.largest = s.target.Revision, s.nonce+1, false, 0
	sub.news = s.news
	sub.releaseMemory()
	s.moved()
	first := true
	for p := range parts(resources, removed, most) {
		s.nonce++
		sub.pending = strconv.FormatUint(s.nonce, 10)
		m := s.wire.encode(&response{
			typeURL: sub.typeURL, revision: sub.revision, nonce: sub.pending, resources: p.resources, removed: p.removed,
		})
		reported := Message{TypeURL: sub.typeURL, Revision: sub.revision, Resources: len(p.resources), Removed: len(p.removed), Bytes: m.pieces.Len(), News: s.news}
		sub.largest = max(sub.largest, reported.Bytes)
		s.status.sent(sub, reported, first)
		s.cfg.Observer.Sent(s, reported)
		if err := s.turn.whileSending(func() error { return s.wire.send(m) }); err != nil {
			return err
		}
		first = false
		if sub.delivery != nil && most > 0 {
			sub.delivery.endPart(p)
		}
	}
	return nil
}

// whole reports whether a response lists everything the client has, so that what is absent is removed.
func (s *Stream) whole(sub *subscription) bool { return !s.wire.incremental() && !s.piecemeal(sub) }

// piecemeal reports whether a state-of-the-world response covers only the resources in it. In all other
// types, absent resources are removed.
func (s *Stream) piecemeal(sub *subscription) bool {
	return !s.wire.incremental() && !sub.wildcard && s.cfg.Named(sub.canonical)
}
