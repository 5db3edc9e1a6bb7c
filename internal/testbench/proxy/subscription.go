package proxy

// subscription is a proxy's subscription to one type.
type subscription struct {
	kind  Type
	begun bool

	version, nonce string // of the last response
	answered       bool   // there has been a response

	// wanted has the subscribed names. It is empty for a wildcard subscription.
	wanted map[name]*want
	open   int // how many of them have no answer yet
}

// want is a name that other resources refer to.
type want struct {
	users int
	heard bool
}

// refer replaces the names that something refers to, and appends the resulting changes to added and
// dropped.
func (s *subscription) refer(before, now []name, added, dropped *[]name) {
	for _, n := range now {
		w := s.wanted[n]
		if w == nil {
			w = &want{}
			s.wanted[n] = w
			s.open++
			*added = append(*added, n)
		}
		w.users++
	}
	for _, n := range before {
		w := s.wanted[n]
		if w.users--; w.users == 0 {
			if !w.heard {
				s.open--
			}
			delete(s.wanted, n)
			*dropped = append(*dropped, n)
		}
	}
}

// hear marks a name as answered.
func (s *subscription) hear(n name) {
	if w := s.wanted[n]; w != nil && !w.heard {
		w.heard = true
		s.open--
	}
}

// settled reports whether all requests were answered.
func (s *subscription) settled() bool { return s.answered && s.open == 0 }
