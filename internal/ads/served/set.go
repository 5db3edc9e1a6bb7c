package served

import (
	"cmp"
	"iter"
	"slices"
)

// Set is an immutable set of resources of one type, in the order of their names. A nil Set is
// empty.
//
// Sets made from one another by With share their pages, and a log of the names that recent changes
// touched: updating a client from one to the next costs what changed, not what there is.
type Set struct {
	pages pages
	size  int
	log   *changeLog // nil: changes are not logged
	seq   uint64
	bare  *Set // the same without the log
}

// None is the initial set of every client: empty, and without a change log.
var None = &Set{}

// NewSet returns a set of the given resources.
func NewSet(resources ...*Resource) *Set {
	return (&Set{log: &changeLog{}, bare: None}).With(resources, nil)
}

// With returns the set with resources added or replaced and others removed. It ignores a resource
// whose version the set has already, and returns the set itself if nothing changes.
func (s *Set) With(upserts []*Resource, removed []string) *Set {
	return s.WithAsIn(nil, upserts, removed)
}

// WithAsIn is With for a set that was branched from an earlier state of other. It shares equal
// pages with other.
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

// Branch returns a set with the same resources and a change log of its own. Sets made from it do
// not end the log of s.
func (s *Set) Branch() *Set {
	if s == nil {
		return NewSet()
	}
	return &Set{pages: s.pages, size: s.size, log: &changeLog{}, bare: s.Unlogged()}
}

// edits returns the edits for upserts and then removals, sorted and unique, and by how much the set
// grows. The last of several upserts to a name wins.
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

// Unlogged returns the set without a change log. What a client has is such a set: there are many,
// nobody follows them, and their changes must not end the log of the set they came from.
func (s *Set) Unlogged() *Set {
	switch {
	case s == nil:
		return None
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

// Names lists the names of all resources, in their order.
func (s *Set) Names() []string {
	names := make([]string, 0, s.Len())
	for r := range s.All() {
		names = append(names, r.Name)
	}
	return names
}

// Index returns the position of a name among all names of the set, and whether it is there.
func (s *Set) Index(name string) (int, bool) {
	if s == nil {
		return 0, false
	}
	return s.pages.index(name)
}

// Like reports whether two sets have the same resources at the same versions.
func (s *Set) Like(other *Set) bool {
	if s.Len() != other.Len() {
		return false
	}
	for r := range s.All() {
		if o := other.Get(r.Name); o == nil || o.Version != r.Version {
			return false
		}
	}
	return true
}

// Known lists the resources that can be sent. Stubs have only a name and a version and cannot.
func (s *Set) Known() []*Resource {
	all := make([]*Resource, 0, s.Len())
	for r := range s.All() {
		if r.Body != nil {
			all = append(all, r)
		}
	}
	return all
}

// Changed lists, sorted and unique, the names that may differ between other and s: the logged ones
// if other is a recent ancestor, otherwise all names of both.
func (s *Set) Changed(other *Set) []string {
	names, exact := s.ChangedSince(other)
	if !exact {
		names = slices.Concat(s.Names(), other.Names())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ChangedSince lists the names that may differ between an older set and s, with repetitions. It
// returns false if old is not a recent ancestor; then everything must be compared.
func (s *Set) ChangedSince(old *Set) ([]string, bool) {
	if s == nil || old == nil || s.log == nil || s.log != old.log || s.seq < old.seq {
		return nil, false
	}
	return s.log.between(old.seq, s.seq)
}
