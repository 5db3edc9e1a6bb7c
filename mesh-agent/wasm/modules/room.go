package modules

import (
	"fmt"
	"time"
)

// makeRoom removes what was used longest ago, until there is room for so many more bytes and
// modules. The caller holds s.mu.
func (s *Store) makeRoom(bytes int64, modules int) error {
	for s.bytes()+s.pending+bytes > s.MaxBytes || len(s.index.Modules)+modules > s.MaxModules {
		oldest := s.oldestUnused()
		if oldest == nil {
			return fmt.Errorf("there is no room for another module: plugins use %d modules of %d bytes, and --wasm-max-modules allows %d, --wasm-max-bytes %d",
				len(s.index.Modules), s.bytes(), s.MaxModules, s.MaxBytes)
		}
		s.Log.Info("a Wasm module that nobody uses makes room for another", "digest", oldest.Digest, "from", oldest.From)
		s.remove(oldest.Digest)
	}
	return nil
}

func (s *Store) bytes() (sum int64) {
	for _, m := range s.index.Modules {
		sum += m.Size
	}
	return sum
}

// oldestUnused returns the module that nobody uses and that was used longest ago, or nil.
func (s *Store) oldestUnused() (oldest *Module) {
	used := s.used()
	for digest, m := range s.index.Modules {
		if !used[digest] && (oldest == nil || m.Used.Before(oldest.Used)) {
			oldest = m
		}
	}
	return oldest
}

// used returns the modules that somebody holds, or that Envoy's configuration names.
func (s *Store) used() map[string]bool {
	used := map[string]bool{}
	for digest := range s.pins {
		used[digest] = true
	}
	if s.InUse == nil {
		return used
	}
	named := map[string]bool{}
	for _, path := range s.InUse() {
		named[path] = true
	}
	for digest := range s.index.Modules {
		if named[s.Path(digest)] {
			used[digest] = true
		}
	}
	return used
}

// Sweep removes what was not used for a while, and saves what is known.
func (s *Store) Sweep(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := s.used()
	for digest, m := range s.index.Modules {
		switch {
		case used[digest]:
			m.Used = now
		case now.Sub(m.Used) > s.Keep:
			s.Log.Info("a Wasm module that nobody uses any more is removed", "digest", digest, "from", m.From)
			s.remove(digest)
		}
	}
	return s.save()
}
