package ads

// A request, and what is made of it, takes memory of a budget until there is an answer: what a client says that it has is forgotten when it
// is brought to what there is.

// hold keeps the memory of a request that was taken in.
func (s *Stream) hold(r *request) {
	if r.release == nil {
		return
	}
	sub := s.subscription(r.typeURL)
	if sub == nil { // the request ends the stream
		r.release()
		return
	}
	before, release := sub.taken, r.release // and not the request
	sub.taken = func() {
		if before != nil {
			before()
		}
		release()
	}
}

// letGo gives the memory of the requests about a type back.
func (s *subscription) letGo() {
	if s.taken != nil {
		s.taken()
		s.taken = nil
	}
}

// letGo gives the memory back of requests that there is nothing to send about any more, or of all.
func (s *Stream) letGo(all bool) {
	for _, sub := range s.subs {
		if all || s.target != nil && sub.pending == "" {
			sub.letGo()
		}
	}
}
