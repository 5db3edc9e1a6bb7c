package mcp

import "github.com/pgmesh/pgmesh/kinds"

// inForce returns what counts of a name: what the first list has that has anything.
func (h *holdings) inForce(name string, in func(*list, string) *version) (*version, *list) {
	for _, l := range h.lists {
		if v := in(l, name); v != nil {
			return v, l
		}
	}
	return nil, nil
}

func delivered(l *list, name string) *version { return l.delivered[name] }

// batch lists what changes with what is pending, in the order in which it was first heard of.
func (s *state) batch(end mark) Batch {
	b := Batch{Revision: end.revision, Mark: end.version, Changes: make([]Change, 0, len(s.touched))}
	for _, h := range s.kinds {
		h.next = h.size
	}
	for _, m := range s.touched {
		h := s.kinds[m.kind]
		before, _ := h.inForce(m.name, delivered)
		now, l := h.inForce(m.name, (*list).find)
		switch {
		case now == nil && before == nil: // it came and went
		case now == nil:
			h.next--
			b.Changes = append(b.Changes, Change{Key: m.key()})
		case before != nil && before.same(now):
		case now.resource == nil:
			// It was known by two names, and what counts now is a mention that did not count when it was delivered. The last
			// good state stays until this one is heard of again.
			l.pending[m.name] = &version{}
		default:
			if before == nil {
				h.next++
			}
			b.Changes = append(b.Changes, Change{Key: now.resource.Key(), Resource: now.resource, Version: now.String(), Body: now.body})
		}
	}
	return b
}

// settle takes what is pending as delivered.
func (s *state) settle() {
	for _, h := range s.kinds {
		for _, l := range h.lists {
			if len(l.delivered) == 0 { // as before the first batch, which is the largest: no second map is made of it
				l.delivered, l.pending = l.pending, l.delivered
			}
		}
	}
	for _, m := range s.touched {
		h := s.kinds[m.kind]
		_, counts := h.inForce(m.name, (*list).find)
		for _, l := range h.lists {
			v := l.find(m.name)
			if v == nil {
				delete(l.delivered, m.name)
				continue
			}
			if l == counts {
				v.resource, v.body = nil, nil
			}
			l.delivered[m.name] = v
		}
		h.size = h.next
	}
	s.discard()
}

// discard forgets what is pending.
func (s *state) discard() {
	for _, m := range s.touched {
		for _, l := range s.kinds[m.kind].lists {
			if len(l.pending) > 0 {
				l.pending = map[string]*version{}
			}
		}
	}
	s.touched = nil
}

// size tells how many resources of a kind were delivered, and how many there will be after the next batch.
func (s *state) size(kind *kinds.Kind) (now, next int) {
	if h := s.kinds[kind]; h != nil {
		return h.size, h.next
	}
	return 0, 0
}
