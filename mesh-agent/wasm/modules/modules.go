// Package modules keeps Wasm modules on disk, each under the digest of its content, so that a
// module is there once for all plugins that use it, and after a restart.
//
// The folder has a bound. What was not used for a while is removed, and before that what was used
// longest ago, if another module needs the room. A module in use is never removed.
package modules

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Options say what is kept, and where.
type Options struct {
	Folder string
	// MaxModules and MaxBytes bound what is kept.
	MaxModules int
	MaxBytes   int64
	// Keep is how long a module stays that nobody uses.
	Keep time.Duration
	// InUse returns the files that Envoy's configuration names. It may be nil.
	InUse func() []string
	// Own gives a file to the account that Envoy runs under. It may be nil.
	Own func(path string) error
	Log *slog.Logger
}

// Store keeps modules.
type Store struct {
	Options

	mu      sync.Mutex
	index   index
	pending int64 // bytes that are being written
	// whole are the modules whose content was compared with their digest since the start.
	whole map[string]bool
	pins  map[string]int // how many hold a module
}

// Module is what is known of a module.
type Module struct {
	Digest  string    `json:"digest"`
	From    string    `json:"from"` // where it was fetched first
	Size    int64     `json:"size"`
	Fetched time.Time `json:"fetched"`
	Used    time.Time `json:"used"`
}

const (
	suffix    = ".wasm"
	temporary = ".fetching-"
)

// Open reads the folder, and removes what an agent left that was killed.
func Open(o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{Options: o, whole: map[string]bool{}, pins: map[string]int{}}
	if err := os.MkdirAll(o.Folder, 0o711); err != nil {
		return nil, fmt.Errorf("keep Wasm modules: %w", err)
	}
	s.index = readIndex(s.indexFile(), o.Log)
	return s, s.removeStrays()
}

// removeStrays removes files that the index does not have, and forgets modules without a file.
func (s *Store) removeStrays() error {
	entries, err := os.ReadDir(s.Folder)
	if err != nil {
		return fmt.Errorf("keep Wasm modules: %w", err)
	}
	there := map[string]bool{}
	for _, e := range entries {
		digest, isModule := strings.CutSuffix(e.Name(), suffix)
		switch {
		case isModule && s.index.Modules[digest] != nil:
			there[digest] = true
		case isModule, strings.HasPrefix(e.Name(), temporary):
			_ = os.Remove(filepath.Join(s.Folder, e.Name())) // it takes room, and nothing else
		}
	}
	for digest := range s.index.Modules {
		if !there[digest] {
			s.index.forget(digest)
		}
	}
	return nil
}

// Path returns where a module is kept.
func (s *Store) Path(digest string) string { return filepath.Join(s.Folder, digest+suffix) }

// Use reports whether a module is there, and undamaged. It counts as used then, and stays until
// release is called.
func (s *Store) Use(digest string) (release func(), there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.index.Modules[digest]
	if m == nil {
		return nil, false
	}
	if !s.whole[digest] {
		if err := compare(s.Path(digest), digest); err != nil {
			s.Log.Warn("a kept Wasm module is damaged, and is fetched again", "digest", digest, "error", err)
			s.remove(digest)
			return nil, false
		}
		s.whole[digest] = true
	}
	m.Used = time.Now()
	s.pins[digest]++
	return sync.OnceFunc(func() { s.release(digest) }), true
}

func (s *Store) release(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins[digest]--; s.pins[digest] == 0 {
		delete(s.pins, digest)
	}
	if m := s.index.Modules[digest]; m != nil {
		m.Used = time.Now()
	}
}

// compare compares the content of a file with a digest.
func compare(path, digest string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != digest {
		return errors.New("its content has changed")
	}
	return nil
}

// remove removes a module. The caller holds s.mu.
func (s *Store) remove(digest string) {
	s.index.forget(digest)
	delete(s.whole, digest)
	if err := os.Remove(s.Path(digest)); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.Log.Warn("cannot remove a Wasm module", "digest", digest, "error", err)
	}
}

// List returns the modules, in no order.
func (s *Store) List() (out []Module) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.index.Modules {
		out = append(out, *m)
	}
	return out
}

// Bytes returns how many bytes the modules have together.
func (s *Store) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes()
}
