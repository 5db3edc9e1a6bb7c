package ads

import (
	"cmp"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/types/known/anypb"
)

// Resource is one resource as it is sent. Streams share it, so it must not be changed.
type Resource struct {
	Name string
	// Version changes exactly when Body does. A client that names it on reconnecting is not sent the body
	// again.
	Version string
	// Body is nil if the resource says that there is nothing of this name, to a client that would otherwise
	// wait. Only delta clients are sent that.
	Body *anypb.Any

	// Empty says that nothing is left in the resource, such as endpoints without any address. For a client
	// that has another version this is a removal, and a plan treats it as one.
	Empty bool

	// Refs are the resources that a client asks for once it has this one and needs to use it, such as the
	// endpoints of a cluster. A plan's stage waits for them, unless they are of a later stage, which then
	// waits. When this resource changes they are sent again.
	Refs []Ref

	encodes atomic.Pointer[encoded]
}

// Ref names a resource of another type.
type Ref struct{ TypeURL, Name string }

// Set is an immutable set of resources of one type, in the order of their names. A nil Set is empty.
//
// Sets made from one another by With share their pages, and a log of the names that recent changes touched:
// updating a client from one to the next costs what changed, not what there is.
type Set struct {
	pages pages
	size  int
	log   *changeLog // nil: changes are not logged
	seq   uint64
	bare  *Set // the same without the log
}

// none is the initial set of every client.
var none = &Set{}

// NewSet returns a set of the given resources.
func NewSet(resources ...*Resource) *Set {
	return (&Set{log: &changeLog{}, bare: none}).With(resources, nil)
}

// With returns the set with resources added or replaced and others removed. It ignores a resource whose
// version the set has already, and returns the set itself if nothing changes.
func (s *Set) With(upserts []*Resource, removed []string) *Set {
	return s.WithAsIn(nil, upserts, removed)
}

// WithAsIn is With for a set that was branched from an earlier state of other. It shares equal pages with
// other.
func (s *Set) WithAsIn(other *Set, upserts []*Resource, removed []string) *Set {
	if s == nil {
		s = NewSet()
	}
	edits, grows := s.edits(upserts, removed)
	if len(edits) == 0 {
		return s
	}
	var others pages
	if other != nil {
		others = other.pages
	}
	next := &Set{pages: s.pages.with(edits, others), size: s.size + grows}
	if s.log != nil {
		touched := make([]string, len(edits))
		for i, e := range edits {
			touched[i] = e.name
		}
		next.log, next.seq = s.log.record(s.seq, touched)
		next.bare = &Set{pages: next.pages, size: next.size}
	}
	return next
}

// Branch returns a set with the same resources and a change log of its own. Sets made from it do not end the
// log of s.
func (s *Set) Branch() *Set {
	if s == nil {
		return NewSet()
	}
	return &Set{pages: s.pages, size: s.size, log: &changeLog{}, bare: unlogged(s)}
}

// edits returns the edits for upserts and then removals, sorted and unique, and by how much the set grows.
// The last of several upserts to a name wins.
func (s *Set) edits(upserts []*Resource, removed []string) (edits []edit, grows int) {
	all := make([]edit, 0, len(upserts)+len(removed))
	for _, r := range upserts {
		all = append(all, edit{r.Name, r})
	}
	for _, name := range removed {
		all = append(all, edit{name, nil})
	}
	slices.SortStableFunc(all, func(a, b edit) int { return cmp.Compare(a.name, b.name) })
	edits = all[:0]
	for i, e := range all {
		if i+1 < len(all) && all[i+1].name == e.name {
			continue
		}
		old := s.pages.get(e.name)
		switch {
		case old == nil && e.to == nil, old != nil && e.to != nil && old.Version == e.to.Version:
			continue
		case old == nil:
			grows++
		case e.to == nil:
			grows--
		}
		edits = append(edits, e)
	}
	return edits, grows
}

// unlogged returns the set without a change log. What a client has is such a set: there are many, nobody
// follows them, and their changes must not end the log of the set they came from.
func unlogged(s *Set) *Set {
	switch {
	case s == nil:
		return none
	case s.log == nil:
		return s
	}
	return s.bare
}

// Get returns the resource of that name, or nil.
func (s *Set) Get(name string) *Resource {
	if s == nil {
		return nil
	}
	return s.pages.get(name)
}

// Len returns the number of resources.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return s.size
}

// All iterates over the set in the order of names.
func (s *Set) All() iter.Seq[*Resource] {
	return func(yield func(*Resource) bool) {
		if s == nil {
			return
		}
		for _, page := range s.pages {
			for _, r := range page {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// known lists the resources that can be sent. Stubs have only a name and a version and cannot.
func (s *Set) known() []*Resource {
	all := make([]*Resource, 0, s.Len())
	for r := range s.All() {
		if r.Body != nil {
			all = append(all, r)
		}
	}
	return all
}

// Changed lists, sorted and unique, the names that may differ between other and s: the logged ones if other
// is a recent ancestor, otherwise all names of both.
func (s *Set) Changed(other *Set) []string {
	names, exact := s.changedSince(other)
	if !exact {
		names = slices.Concat(namesOf(s), namesOf(other))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// changedSince lists the names that may differ between an older set and s, with repetitions. It returns false
// if old is not a recent ancestor; then everything must be compared.
func (s *Set) changedSince(old *Set) ([]string, bool) {
	if s == nil || old == nil || s.log == nil || s.log != old.log || s.seq < old.seq {
		return nil, false
	}
	return s.log.between(old.seq, s.seq)
}

// changeLog records the names touched by recent changes to a line of sets.
type changeLog struct {
	mu      sync.Mutex
	first   uint64 // the sequence number that entries[0] leads from
	entries [][]string
	names   int
}

// maxLoggedNames bounds a log's memory. For a reader further behind, comparing whole sets costs about the
// same.
const maxLoggedNames = 4096

// record logs the change from a set to its successor. For a set that already has a successor it starts a new
// log.
func (l *changeLog) record(from uint64, touched []string) (*changeLog, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from != l.first+uint64(len(l.entries)) {
		return &changeLog{}, 0
	}
	l.entries = append(l.entries, touched)
	l.names += len(touched)
	for l.names > maxLoggedNames {
		l.names -= len(l.entries[0])
		l.entries[0] = nil
		l.entries = l.entries[1:]
		l.first++
	}
	return l, from + 1
}

func (l *changeLog) between(from, to uint64) ([]string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from < l.first {
		return nil, false
	}
	var names []string
	for _, touched := range l.entries[from-l.first : to-l.first] {
		names = append(names, touched...)
	}
	return names, true
}
