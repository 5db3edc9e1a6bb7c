package ads

import "strconv"

// send puts a step into the form that the client speaks. A response that is due is sent even if it says nothing.
func (s *Stream) send(sub *subscription, st step, due bool) error {
	resources, removed := st.changed, st.removed
	switch {
	case s.piecemeal(sub) && len(resources) == 0:
		return nil // this form cannot say that something is gone
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

// sendParts sends what a client may take as one response, in more than one message if it is large and the form allows that. They
// follow one another without waiting: gRPC's flow control holds back what the client does not read, and no copy is made of it.
func (s *Stream) sendParts(sub *subscription, resources []*Resource, removed []string) error {
	most := 0
	if s.wire.incremental() {
		most = s.cfg.MostBytes
	}
	sub.revision, sub.oldest, sub.partRefused, sub.largest = s.target.Revision, s.nonce+1, false, 0
	sub.news = s.news
	sub.letGo()
	s.moved()
	first := true
	for p := range parts(resources, removed, most) {
		s.nonce++
		sub.pending = strconv.FormatUint(s.nonce, 10)
		m := s.wire.encode(&response{
			typeURL: sub.typeURL, revision: sub.revision, nonce: sub.pending, resources: p.resources, removed: p.removed,
		})
		told := Message{TypeURL: sub.typeURL, Revision: sub.revision, Resources: len(p.resources), Removed: len(p.removed), Bytes: m.pieces.Len(), News: s.news}
		sub.largest = max(sub.largest, told.Bytes)
		s.account.sent(sub, told, first)
		s.cfg.Observer.Sent(s, told)
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

// whole tells whether a response speaks of everything that the client has: what is absent from it is gone.
func (s *Stream) whole(sub *subscription) bool { return !s.wire.incremental() && !s.piecemeal(sub) }

// piecemeal tells whether a response of a state-of-the-world stream speaks only of the resources in it: what is absent from
// any other is gone.
func (s *Stream) piecemeal(sub *subscription) bool {
	return !s.wire.incremental() && !sub.wildcard && s.cfg.Named(sub.canonical)
}
