package modules

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// Pending is a module that is being written.
type Pending struct {
	store *Store
	file  *os.File
	size  int64
}

// Create begins to write a module.
func (s *Store) Create() (*Pending, error) {
	f, err := os.CreateTemp(s.Folder, temporary)
	if err != nil {
		return nil, fmt.Errorf("keep a Wasm module: %w", err)
	}
	return &Pending{store: s, file: f}, nil
}

// Write appends to the module, and makes room for that.
func (p *Pending) Write(content []byte) (int, error) {
	if err := p.store.reserve(int64(len(content))); err != nil {
		return 0, err
	}
	p.size += int64(len(content))
	return p.file.Write(content)
}

// reserve makes room for some more bytes of a module.
func (s *Store) reserve(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.makeRoom(n, 0); err != nil {
		return err
	}
	s.pending += n
	return nil
}

// Discard removes what was written. It does nothing after Keep.
func (p *Pending) Discard() {
	if p.file == nil {
		return
	}
	_ = errors.Join(p.file.Close(), os.Remove(p.file.Name())) // the next start removes it otherwise
	p.end()
}

func (p *Pending) end() {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	p.store.pending -= p.size
	p.file = nil
}

// Keep keeps the module under its digest.
func (p *Pending) Keep(digest, from string) error {
	s, path := p.store, p.store.Path(digest)
	err := errors.Join(p.file.Sync(), p.file.Close())
	if err == nil && s.Own != nil {
		err = s.Own(p.file.Name())
	}
	defer p.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.index.Modules[digest] == nil {
		err = s.makeRoom(0, 1)
	}
	if err == nil {
		err = os.Rename(p.file.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keep a Wasm module: %w", err), os.Remove(p.file.Name()))
	}
	now := time.Now()
	s.index.Modules[digest] = &Module{Digest: digest, From: from, Size: p.size, Fetched: now, Used: now}
	s.whole[digest] = true
	return nil
}
