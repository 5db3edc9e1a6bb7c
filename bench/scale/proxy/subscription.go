package proxy

// subscription is what a proxy has asked for of one type.
type subscription struct {
	kind  Type
	begun bool

	version, nonce string // of the last response
	answered       bool   // there was one

	// wanted are the names that were asked for, none where all are wanted.
	wanted map[name]*want
	open   int // of these, those of which nothing was heard yet
}

// want is a name that others refer to.
type want struct {
	users int
	heard bool
}

// refer exchanges the names that something refers to, and appends to added and dropped what that changes.
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

// hear notes that something was said of a name.
func (s *subscription) hear(n name) {
	if w := s.wanted[n]; w != nil && !w.heard {
		w.heard = true
		s.open--
	}
}

// settled tells whether everything that was asked for was answered.
func (s *subscription) settled() bool { return s.answered && s.open == 0 }
