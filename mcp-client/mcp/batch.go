package mcp

import "github.com/pgmesh/pgmesh/kinds"

// effective returns the version of a resource that counts: that of the first list that has one.
func (h *kindState) effective(name string, in func(*list, string) *version) (*version, *list) {
	for _, l := range h.lists {
		if v := in(l, name); v != nil {
			return v, l
		}
	}
	return nil, nil
}

func delivered(l *list, name string) *version { return l.delivered[name] }

// batch lists the changes that are pending, in the order in which they arrived.
func (s *state) batch(end batchEnd) kinds.Batch {
	b := kinds.Batch{Revision: end.revision, Mark: end.version, Changes: make([]kinds.Change, 0, len(s.touched))}
	for _, h := range s.kinds {
		h.next = h.size
	}
	for _, m := range s.touched {
		h := s.kinds[m.kind]
		before, _ := h.effective(m.name, delivered)
		now, l := h.effective(m.name, (*list).find)
		switch {
		case now == nil && before == nil: // added and removed since the last batch
		case now == nil:
			h.next--
			b.Changes = append(b.Changes, kinds.Change{Key: m.key()})
		case before != nil && before.same(now):
		case now.resource == nil:
			// The resource has two names, and what counts now is a version that did not count when
			// it was delivered, so its content is gone. The last good state stays until the server
			// sends it again.
			l.pending[m.name] = &version{}
		default:
			if before == nil {
				h.next++
			}
			b.Changes = append(b.Changes, kinds.Change{Key: now.resource.Key(), Resource: now.resource, Version: now.String(), Body: now.body})
		}
	}
	return b
}

// commit marks what is pending as delivered.
func (s *state) commit() {
	for _, h := range s.kinds {
		for _, l := range h.lists {
			if len(l.delivered) == 0 { // before the first batch, which is the largest, this saves a copy of the map
				l.delivered, l.pending = l.pending, l.delivered
			}
		}
	}
	for _, m := range s.touched {
		h := s.kinds[m.kind]
		_, counts := h.effective(m.name, (*list).find)
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

// discard drops what is pending.
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

// size returns how many resources of a kind were delivered, and how many there will be after the
// next batch.
func (s *state) size(kind *kinds.Kind) (now, next int) {
	if h := s.kinds[kind]; h != nil {
		return h.size, h.next
	}
	return 0, 0
}
