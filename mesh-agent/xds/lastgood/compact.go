package lastgood

import (
	"errors"
	"os"
	"time"
)

const (
	// The files are compacted when they have this much waste, and at least as much waste as live
	// data.
	minWaste = 1 << 20
	// copyBatchSize is how many resources are copied while the lock is held.
	copyBatchSize = 32
)

// afterWrite schedules a sync, removes foreign files, and starts compaction if it is due. The
// caller holds s.mu.
func (s *Store) afterWrite() {
	if s.syncTimer == nil {
		s.syncTimer = time.AfterFunc(syncAfter, s.syncCurrent)
	}
	s.removeFiles(s.foreign)
	s.foreign = nil
	size := int64(0)
	for _, f := range s.files {
		size += f.size
	}
	if waste := size - s.live; s.compacting || waste < minWaste || waste < s.live {
		return
	}
	if err := s.startFile(s.current().number); err != nil {
		s.fail(err)
		return
	}
	s.compacting = true
	s.work.Go(s.compact)
}

// syncCurrent syncs the current file to disk.
func (s *Store) syncCurrent() {
	s.mu.Lock()
	s.syncTimer = nil
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
		err = f.Sync() // without the lock, so that nobody waits for the disk
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		f.synced = size
	case !errors.Is(err, os.ErrClosed): // it was compacted away meanwhile
		s.fail(err)
	}
}

// compact copies live records from older files to the newest and removes the older ones.
func (s *Store) compact() {
	for s.copyBatch() {
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacting = false
	if s.failed != nil || s.closed {
		return
	}
	err := s.copyOffers()
	if err == nil {
		err = s.current().flushAndSync()
	}
	if err != nil {
		s.fail(err)
		return
	}
	last := len(s.files) - 1
	s.removeFiles(s.files[:last])
	s.files = s.files[last:]
}

// removeFiles removes files without live records.
func (s *Store) removeFiles(files []*file) {
	for _, f := range files {
		_ = f.Close() // it was only read
		if err := os.Remove(f.Name()); err != nil {
			s.log.Warn("cannot remove an obsolete file of the last good configuration", "error", err)
		}
	}
}

// copyBatch copies some records and reports whether there may be more.
func (s *Store) copyBatch() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil || s.closed {
		return false
	}
	for typeURL, k := range s.types {
		var old []*entry
		var copied []*entry
		s.number++
		for name, e := range k.entries {
			if e.file == s.current() {
				continue
			}
			r, err := e.read()
			if err != nil {
				s.log.Warn("a resource of the last good configuration cannot be read, and is left out", "type", typeName(typeURL), "name", name, "error", err)
				s.remove(k, []string{name})
				continue
			}
			r.number = s.number
			at, err := s.current().append(r)
			if err != nil {
				s.fail(err)
				return false
			}
			old, copied = append(old, e), append(copied, &entry{at, e.version})
			if len(old) == copyBatchSize {
				break
			}
		}
		if len(old) == 0 {
			continue
		}
		if _, err := s.current().append(s.accepted(typeURL, k)); err != nil {
			s.fail(err)
			return false
		}
		for i, e := range old {
			*e = *copied[i]
		}
		return true
	}
	for typeURL, k := range s.types { // including types without resources, for their versions
		s.number++
		if _, err := s.current().append(s.accepted(typeURL, k)); err != nil {
			s.fail(err)
		}
	}
	return false
}

func (s *Store) accepted(typeURL string, k *typeState) *record {
	return &record{what: isAccept, number: s.number, typeURL: typeURL, version: k.version, at: uint64(s.acceptedAt.Unix())}
}

// copyOffers copies the responses that Envoy has not answered.
func (s *Store) copyOffers() error {
	for o := range s.offers {
		for _, e := range o.written {
			if e.file == s.current() {
				continue
			}
			r, err := e.read()
			if err != nil {
				return err
			}
			if e.location, err = s.current().append(r); err != nil {
				return err
			}
		}
	}
	return nil
}
