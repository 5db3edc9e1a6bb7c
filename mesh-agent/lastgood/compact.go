package lastgood

import (
	"errors"
	"os"
	"time"
)

const (
	// What is of no use is left behind when it is this much, and as much as what is of use.
	leastWaste = 1 << 20
	// movedAtOnce is how many resources are written to another file before somebody else may do something.
	movedAtOnce = 32
)

// written sees to what was written. The lock is held.
func (s *Store) written() {
	if s.sync == nil {
		s.sync = time.AfterFunc(syncAfter, s.settle)
	}
	s.leave(s.strangers)
	s.strangers = nil
	size := int64(0)
	for _, f := range s.files {
		size += f.size
	}
	if waste := size - s.live; s.moving || waste < leastWaste || waste < s.live {
		return
	}
	if err := s.begin(s.current().number); err != nil {
		s.fail(err)
		return
	}
	s.moving = true
	s.work.Go(s.move)
}

// settle has the disk take what the kernel has.
func (s *Store) settle() {
	s.mu.Lock()
	s.sync = nil
	if s.closed || s.failed != nil {
		s.mu.Unlock()
		return
	}
	f := s.current()
	size, err := f.size, f.out.Flush()
	s.work.Add(1)
	s.mu.Unlock()
	defer s.work.Done()
	if err == nil {
		err = f.Sync() // nobody waits for the disk
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		f.safe = size
	case !errors.Is(err, os.ErrClosed): // it was left behind meanwhile
		s.fail(err)
	}
}

// move writes what is of use in older files to the newest, and leaves them behind.
func (s *Store) move() {
	for s.moveSome() {
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moving = false
	if s.failed != nil || s.closed {
		return
	}
	err := s.moveOffers()
	if err == nil {
		err = s.current().settle()
	}
	if err != nil {
		s.fail(err)
		return
	}
	last := len(s.files) - 1
	s.leave(s.files[:last])
	s.files = s.files[last:]
}

// leave removes files in which nothing is of use.
func (s *Store) leave(files []*file) {
	for _, f := range files {
		_ = f.Close() // it was read alone
		if err := os.Remove(f.Name()); err != nil {
			s.log.Warn("a file of the last good configuration is of no use any more, and cannot be removed", "error", err)
		}
	}
}

// moveSome tells whether there may be more.
func (s *Store) moveSome() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil || s.closed {
		return false
	}
	for typeURL, k := range s.types {
		var moved []*entry
		var to []*entry
		s.number++
		for name, e := range k.entries {
			if e.file == s.current() {
				continue
			}
			r, err := e.read()
			if err != nil {
				s.log.Warn("some of the last good configuration has become unreadable, and is left out", "type", called(typeURL), "name", name, "error", err)
				s.remove(k, []string{name})
				continue
			}
			r.number = s.number
			at, err := s.current().append(r)
			if err != nil {
				s.fail(err)
				return false
			}
			moved, to = append(moved, e), append(to, &entry{at, e.version})
			if len(moved) == movedAtOnce {
				break
			}
		}
		if len(moved) == 0 {
			continue
		}
		if _, err := s.current().append(s.accepted(typeURL, k)); err != nil {
			s.fail(err)
			return false
		}
		for i, e := range moved {
			*e = *to[i]
		}
		return true
	}
	for typeURL, k := range s.types { // also of what there is nothing
		s.number++
		if _, err := s.current().append(s.accepted(typeURL, k)); err != nil {
			s.fail(err)
		}
	}
	return false
}

func (s *Store) accepted(typeURL string, k *kind) *record {
	return &record{what: isAccept, number: s.number, typeURL: typeURL, version: k.version, at: uint64(s.at.Unix())}
}

// moveOffers writes what Envoy has not answered.
func (s *Store) moveOffers() error {
	for o := range s.offers {
		for _, e := range o.places {
			if e.file == s.current() {
				continue
			}
			r, err := e.read()
			if err != nil {
				return err
			}
			if e.place, err = s.current().append(r); err != nil {
				return err
			}
		}
	}
	return nil
}
