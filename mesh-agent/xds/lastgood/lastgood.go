// Package lastgood stores on disk the configuration that Envoy has accepted, for an Envoy that
// starts while no discovery answers.
//
// The files are a log. A response is appended as it is sent to Envoy, and counts once Envoy's ACK
// is appended too, so the store writes no more than what changed. Each record has a checksum, and
// unreadable ones are left out. When most of the log is waste, the rest is copied to a new file.
package lastgood

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/mesh-agent/xds/wire"
)

// SecretType is stored only on request.
const SecretType = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"

// Options say what to store, and for which proxy.
type Options struct {
	Folder string
	// Owner identifies the proxy. A configuration stored for another is not used.
	Owner string
	// Secrets stores secrets too: gateways' certificates and private keys.
	Secrets bool
	Log     *slog.Logger
}

// Store holds what Envoy has accepted.
type Store struct {
	options Options
	log     *slog.Logger

	mu         sync.Mutex
	types      map[string]*typeState
	files      []*file // with live records; the last is appended to
	foreign    []*file // of another owner; removed at the next write
	live       int64   // bytes of live records
	number     uint64  // number of the last response
	offers     map[*offer]struct{}
	acceptedAt time.Time // time of the last ACK
	failed     error     // why nothing is stored any more
	compacting bool      // compaction is under way
	syncTimer  *time.Timer
	work       sync.WaitGroup
	closed     bool
}

// typeState holds the resources of a type.
type typeState struct {
	version string
	entries map[string]*entry
}

// entry is an accepted resource.
type entry struct {
	location

	version string
}

// syncAfter bounds how long accepted data may be in the page cache alone.
const syncAfter = time.Second

// Open reads the store. It returns an error only for the folder: damaged files are logged, and
// their unreadable records left out.
func Open(o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{options: o, log: o.Log, types: map[string]*typeState{}, offers: map[*offer]struct{}{}}
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
	l := loader{store: s, pending: map[uint64][]pendingEntry{}}
	for _, n := range known {
		f, err := openFile(s.options.Folder, n)
		if err != nil {
			return err
		}
		s.files = append(s.files, f)
		l.owner, l.headerRead = "nobody knows whose", false
		lost, err := f.load(l.apply)
		if err != nil {
			return err
		}
		if lost.records > 0 || lost.torn {
			s.log.Warn("some of the last good configuration cannot be read, and is left out", "file", f.Name(), "broken_records", lost.records, "torn", lost.torn)
		}
		if l.owner != s.options.Owner {
			s.log.Warn("a last good configuration is not this proxy's, and is not used", "file", f.Name(), "its", l.owner, "this", s.options.Owner)
			s.foreign, s.files = append(s.foreign, f), s.files[:len(s.files)-1]
		}
	}
	if len(s.files) > 0 {
		return nil
	}
	last := 0
	if len(known) > 0 {
		last = known[len(known)-1]
	}
	return s.startFile(last)
}

// loader replays the records of the files.
type loader struct {
	store      *Store
	owner      string // of the file being read
	headerRead bool   // the file's first record was read
	pending    map[uint64][]pendingEntry
}

// pendingEntry is a resource of a response without an ACK yet.
type pendingEntry struct {
	typeURL, name string
	entry         *entry
}

// apply applies a record. It skips the files of another owner, and files that do not begin with a
// header.
func (l *loader) apply(r *record, at location) {
	s := l.store
	if !l.headerRead {
		l.headerRead = true
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
		l.pending[r.number] = append(l.pending[r.number], pendingEntry{r.typeURL, r.name, &entry{at, r.version}})
	case isAccept:
		k := s.typeState(r.typeURL)
		k.version = r.version
		for _, o := range l.pending[r.number] {
			if o.typeURL == r.typeURL {
				s.put(k, o.name, o.entry)
			}
		}
		delete(l.pending, r.number)
		s.remove(k, r.names)
		s.acceptedAt = time.Unix(int64(r.at), 0)
	case isForget:
		s.remove(s.typeState(r.typeURL), r.names)
	}
}

func (s *Store) typeState(typeURL string) *typeState {
	k := s.types[typeURL]
	if k == nil {
		k = &typeState{entries: map[string]*entry{}}
		s.types[typeURL] = k
	}
	return k
}

func (s *Store) put(k *typeState, name string, e *entry) {
	if before := k.entries[name]; before != nil {
		s.live -= int64(before.size)
	}
	k.entries[name] = e
	s.live += int64(e.size)
}

func (s *Store) remove(k *typeState, names []string) {
	for _, name := range names {
		if before := k.entries[name]; before != nil {
			s.live -= int64(before.size)
			delete(k.entries, name)
		}
	}
}

// startFile starts the file with the number after+1.
func (s *Store) startFile(after int) error {
	f, err := openFile(s.options.Folder, after+1)
	if err != nil {
		return err
	}
	s.files = append(s.files, f)
	_, err = f.append(&record{what: isHeader, format: format, owner: s.options.Owner})
	return err
}

// current returns the file that is appended to.
func (s *Store) current() *file { return s.files[len(s.files)-1] }

// fail stops storing; what was stored stays. The caller holds s.mu.
func (s *Store) fail(err error) {
	s.failed = err
	s.log.Error("the last good configuration cannot be written any more; an Envoy that starts while no discovery answers gets the one stored so far", "error", err)
}

// Close flushes and closes the files.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	if s.syncTimer != nil {
		s.syncTimer.Stop()
	}
	s.mu.Unlock()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range append(s.files, s.foreign...) {
		_ = f.flushAndSync() // no way to recover from an error here
		_ = f.Close()
	}
	s.files, s.foreign = nil, nil
}

// Summary describes what is stored.
type Summary struct {
	Resources map[string]int // by type name, as in "clusters"
	Bytes     int64
	At        time.Time // time of the last ACK
	Failed    error     // why nothing is stored any more
}

// Summary returns a summary. It has plain names for types, such as clusters and endpoints.
func (s *Store) Summary() Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Summary{Resources: map[string]int{}, Bytes: s.live, At: s.acceptedAt, Failed: s.failed}
	for typeURL, k := range s.types {
		out.Resources[typeName(typeURL)] += len(k.entries)
	}
	return out
}

var typeNames = map[string]string{
	"Cluster": "clusters", "ClusterLoadAssignment": "endpoints", "Listener": "listeners", "RouteConfiguration": "routes", "VirtualHost": "virtual hosts",
	"ScopedRouteConfiguration": "scoped routes", "TypedExtensionConfig": "extensions", "Secret": "secrets", "NameTable": "name tables",
}

func typeName(typeURL string) string {
	last := typeURL[strings.LastIndexByte(typeURL, '.')+1:]
	if name := typeNames[last]; name != "" {
		return name
	}
	return last
}

// Has reports whether the type is stored; with names, whether any of them is.
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

// Versions returns the version of each resource of a type.
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

// All returns all resources of a type, and their SotW version.
func (s *Store) All(typeURL string) (all []wire.Resource, version string) {
	return s.Some(typeURL, func(string) bool { return true })
}

// Some returns the resources of a type whose names are wanted, leaving out unreadable ones.
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
			s.log.Warn("a resource of the last good configuration cannot be read, and is left out", "type", typeName(typeURL), "name", name, "error", err)
			continue
		}
		some = append(some, wire.Resource{Name: r.name, Version: r.version, Aliases: r.aliases, Body: r.body})
	}
	return some, k.version
}
