// Package lastgood keeps on disk what an Envoy has accepted, so that one that starts while no discovery answers has something to start with.
//
// Each change is appended: the resources as they are sent, and that they were accepted when Envoy says so. So what is written is as much as
// what changed. Every record has a checksum, and what cannot be read is left out. When most of what is there is of no use any more, the rest
// is written to another file.
package lastgood

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/mesh-agent/wire"
)

// SecretType is what is kept only if that is asked for.
const SecretType = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"

// Options say what is kept, and whose it is.
type Options struct {
	Folder string
	// Owner is whose configuration it is. That of another is not used.
	Owner string
	// Secrets are kept, too: certificates of gateways, and their keys.
	Secrets bool
	Log     *slog.Logger
}

// Store has what Envoy has accepted.
type Store struct {
	options Options
	log     *slog.Logger

	mu        sync.Mutex
	types     map[string]*kind
	files     []*file // in which something may be; the last is appended to
	strangers []*file // which go when there is something better
	live      int64   // bytes of records that are of use
	number    uint64  // of the last response
	offers    map[*offer]struct{}
	at        time.Time // when something was accepted last
	failed    error     // why nothing is kept any more
	moving    bool      // what is of use is being written to another file
	sync      *time.Timer
	work      sync.WaitGroup
	closed    bool
}

// kind is what there is of a type.
type kind struct {
	version string
	entries map[string]*entry
}

// entry is a resource that Envoy has accepted.
type entry struct {
	place

	version string
}

// syncAfter is how long what was accepted may be in the kernel's hands alone.
const syncAfter = time.Second

// Open reads what there is. The error is one of the folder; what is wrong with what was kept is logged, and left out.
func Open(o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{options: o, log: o.Log, types: map[string]*kind{}, offers: map[*offer]struct{}{}}
	if err := os.MkdirAll(o.Folder, 0o700); err != nil {
		return nil, fmt.Errorf("keep the last good configuration: %w", err)
	}
	if err := s.load(); err != nil {
		s.Close()
		return nil, fmt.Errorf("keep the last good configuration: %w", err)
	}
	return s, nil
}

// load reads all files.
func (s *Store) load() error {
	known, err := numbers(s.options.Folder)
	if err != nil {
		return err
	}
	l := loading{store: s, pending: map[uint64][]offered{}}
	for _, n := range known {
		f, err := openFile(s.options.Folder, n)
		if err != nil {
			return err
		}
		s.files = append(s.files, f)
		l.owner, l.begun = "nobody knows whose", false
		lost, err := f.load(l.take)
		if err != nil {
			return err
		}
		if lost.records > 0 || lost.torn {
			s.log.Warn("some of the last good configuration cannot be read, and is left out", "file", f.Name(), "broken_records", lost.records, "torn", lost.torn)
		}
		if l.owner != s.options.Owner {
			s.log.Warn("a last good configuration is not this proxy's, and is not used", "file", f.Name(), "its", l.owner, "this", s.options.Owner)
			s.strangers, s.files = append(s.strangers, f), s.files[:len(s.files)-1]
		}
	}
	if len(s.files) > 0 {
		return nil
	}
	last := 0
	if len(known) > 0 {
		last = known[len(known)-1]
	}
	return s.begin(last)
}

// loading is what is made of the records of the files.
type loading struct {
	store   *Store
	owner   string // of the file
	begun   bool   // its first record was read
	pending map[uint64][]offered
}

// offered is a resource of a response that is not known to be accepted.
type offered struct {
	typeURL, name string
	entry         *entry
}

// take takes a record in. What is in the file of another is left out, and so is all of a file that does not begin with whose it is.
func (l *loading) take(r *record, at place) {
	s := l.store
	if !l.begun {
		l.begun = true
		switch {
		case r.what == isHeader && r.format > format:
			l.owner = fmt.Sprintf("written by a later version (format %d)", r.format)
		case r.what == isHeader:
			l.owner = r.owner
		}
		return
	}
	if l.owner != s.options.Owner {
		return
	}
	s.number = max(s.number, r.number)
	switch r.what {
	case isOffer:
		l.pending[r.number] = append(l.pending[r.number], offered{r.typeURL, r.name, &entry{at, r.version}})
	case isAccept:
		k := s.kind(r.typeURL)
		k.version = r.version
		for _, o := range l.pending[r.number] {
			if o.typeURL == r.typeURL {
				s.put(k, o.name, o.entry)
			}
		}
		delete(l.pending, r.number)
		s.remove(k, r.names)
		s.at = time.Unix(int64(r.at), 0)
	case isForget:
		s.remove(s.kind(r.typeURL), r.names)
	}
}

func (s *Store) kind(typeURL string) *kind {
	k := s.types[typeURL]
	if k == nil {
		k = &kind{entries: map[string]*entry{}}
		s.types[typeURL] = k
	}
	return k
}

func (s *Store) put(k *kind, name string, e *entry) {
	if before := k.entries[name]; before != nil {
		s.live -= int64(before.size)
	}
	k.entries[name] = e
	s.live += int64(e.size)
}

func (s *Store) remove(k *kind, names []string) {
	for _, name := range names {
		if before := k.entries[name]; before != nil {
			s.live -= int64(before.size)
			delete(k.entries, name)
		}
	}
}

// begin begins another file, after so many.
func (s *Store) begin(after int) error {
	f, err := openFile(s.options.Folder, after+1)
	if err != nil {
		return err
	}
	s.files = append(s.files, f)
	_, err = f.append(&record{what: isHeader, format: format, owner: s.options.Owner})
	return err
}

// current is the file that is appended to.
func (s *Store) current() *file { return s.files[len(s.files)-1] }

// fail ends keeping: what was kept stays, as good as it was.
func (s *Store) fail(err error) {
	s.failed = err
	s.log.Error("what Envoy accepts cannot be kept any more; if it starts while no discovery answers, it has what was kept until now", "error", err)
}

// Close writes everything out.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	if s.sync != nil {
		s.sync.Stop()
	}
	s.mu.Unlock()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range append(s.files, s.strangers...) {
		_ = f.settle() // nothing is left to do about it
		_ = f.Close()
	}
	s.files, s.strangers = nil, nil
}

// Summary tells what is kept.
type Summary struct {
	Resources map[string]int // by type
	Bytes     int64
	At        time.Time // when something was accepted last
	Failed    error     // why nothing is kept any more
}

// Summary tells what is kept now. Types are called as people call them: clusters, endpoints.
func (s *Store) Summary() Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Summary{Resources: map[string]int{}, Bytes: s.live, At: s.at, Failed: s.failed}
	for typeURL, k := range s.types {
		out.Resources[called(typeURL)] += len(k.entries)
	}
	return out
}

var names = map[string]string{
	"Cluster": "clusters", "ClusterLoadAssignment": "endpoints", "Listener": "listeners", "RouteConfiguration": "routes", "VirtualHost": "virtual hosts",
	"ScopedRouteConfiguration": "scoped routes", "TypedExtensionConfig": "extensions", "Secret": "secrets", "NameTable": "name tables",
}

func called(typeURL string) string {
	last := typeURL[strings.LastIndexByte(typeURL, '.')+1:]
	if name := names[last]; name != "" {
		return name
	}
	return last
}

// Has tells whether there is something of a type, of one of some names if there are any.
func (s *Store) Has(typeURL string, names ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.types[typeURL]
	if k == nil || len(names) == 0 {
		return k != nil
	}
	for _, name := range names {
		if k.entries[name] != nil {
			return true
		}
	}
	return false
}

// Versions are those of what there is of a type.
func (s *Store) Versions(typeURL string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	if k := s.types[typeURL]; k != nil {
		for name, e := range k.entries {
			out[name] = e.version
		}
	}
	return out
}

// All is all of a type, and the version of the state of the world that it is.
func (s *Store) All(typeURL string) (all []wire.Resource, version string) {
	return s.Some(typeURL, func(string) bool { return true })
}

// Some are those of a type whose names are wanted. What has become unreadable is left out.
func (s *Store) Some(typeURL string, wanted func(name string) bool) (some []wire.Resource, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.types[typeURL]
	if k == nil {
		return nil, ""
	}
	for name, e := range k.entries {
		if !wanted(name) {
			continue
		}
		r, err := e.read()
		if err != nil {
			s.log.Warn("some of the last good configuration has become unreadable, and is left out", "type", called(typeURL), "name", name, "error", err)
			continue
		}
		some = append(some, wire.Resource{Name: r.name, Version: r.version, Aliases: r.aliases, Body: r.body})
	}
	return some, k.version
}
