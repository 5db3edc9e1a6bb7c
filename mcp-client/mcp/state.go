package mcp

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/kinds"
)

// state is what a server was heard to have, as far as it was delivered, and on top of that what was received since and is not
// delivered yet. It holds no resource that was delivered, only what tells whether the next mention of it says something new.
// It outlives streams.
type state struct {
	kinds map[*kinds.Kind]*holdings
	// touched is what was heard about since the last delivery, in order and once each: what is pending in any list.
	touched []mention
}

// mention names a resource that something was heard about.
type mention struct {
	kind *kinds.Kind
	name string
}

// holdings are the lists that there are of one kind: a server may be asked for a kind by more than one name.
type holdings struct {
	lists []*list // the one that counts most first
	size  int     // how many resources were delivered
	next  int     // how many there will be with what is pending; made by batch
}

// list is what a server has under one name of a kind.
type list struct {
	name      string // a type URL or a collection
	delivered map[string]*version
	pending   map[string]*version // nil for what is gone
}

// version is how one resource stands.
type version struct {
	// named is what the server calls it; content is a hash, of a server whose names are not to be relied on.
	named   string
	content digest
	// resource is nil once it was delivered, and so is the body, which is kept for those who want it.
	resource *kinds.Resource
	body     *anypb.Any
}

// same tells whether two mentions of a resource say the same.
func (v *version) same(other *version) bool {
	if v.content != (digest{}) || other.content != (digest{}) {
		return v.content == other.content
	}
	return v.named == other.named
}

// newState has what the client's user has from before.
func newState(held map[kinds.Key]string) *state {
	s := &state{kinds: map[*kinds.Kind]*holdings{}}
	for key, value := range held {
		s.list(key.Kind, key.Kind.TypeURL()).delivered[key.FullName()] = &version{named: value}
		s.kinds[key.Kind].size++
	}
	return s
}

// list returns what there is under a name, which counts for less than the names that it was asked for before.
func (s *state) list(kind *kinds.Kind, name string) *list {
	h := s.kinds[kind]
	if h == nil {
		h = &holdings{}
		s.kinds[kind] = h
	}
	for _, l := range h.lists {
		if l.name == name {
			return l
		}
	}
	l := &list{name: name, delivered: map[string]*version{}, pending: map[string]*version{}}
	h.lists = append(h.lists, l)
	return l
}

// rank puts the lists of a kind in the order of these names. Others count least.
func (s *state) rank(kind *kinds.Kind, order []string) {
	h := s.kinds[kind]
	if h == nil {
		return
	}
	place := func(l *list) int {
		if i := slices.Index(order, l.name); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(h.lists, func(a, b *list) int { return place(a) - place(b) })
}

// held lists the versions of what was delivered under a name, as a first request names them.
func (s *state) held(kind *kinds.Kind, name string) map[string]string {
	delivered := s.list(kind, name).delivered
	held := make(map[string]string, len(delivered))
	for n, v := range delivered {
		held[n] = v.named
	}
	return held
}

// find returns what is known of a resource under this name, nil if there is none.
func (l *list) find(name string) *version {
	if v, pending := l.pending[name]; pending {
		return v
	}
	return l.delivered[name]
}

// all lists the names of what there is.
func (l *list) all() map[string]bool {
	all := make(map[string]bool, len(l.delivered)+len(l.pending))
	for n := range l.delivered {
		all[n] = true
	}
	for n, v := range l.pending {
		if v == nil {
			delete(all, n)
		} else {
			all[n] = true
		}
	}
	return all
}

// empty tells whether there is nothing.
func (l *list) empty() bool {
	gone := 0
	for name, v := range l.pending {
		if v != nil {
			return false
		}
		if l.delivered[name] != nil {
			gone++
		}
	}
	return gone == len(l.delivered)
}

func (s *state) put(kind *kinds.Kind, l *list, name string, v version) { s.set(kind, l, name, &v) }

func (s *state) remove(kind *kinds.Kind, l *list, name string) {
	if l.find(name) == nil {
		return
	}
	s.set(kind, l, name, nil)
}

// set makes something pending, and notes that it is if it was not before, in this list or another.
func (s *state) set(kind *kinds.Kind, l *list, name string, v *version) {
	before := len(l.pending)
	l.pending[name] = v
	if len(l.pending) == before {
		return
	}
	for _, other := range s.kinds[kind].lists {
		if _, pending := other.pending[name]; pending && other != l {
			return
		}
	}
	s.touched = append(s.touched, mention{kind, name})
}

// key is what a resource is known by to the user of the client.
func (m mention) key() kinds.Key {
	namespace, name, found := strings.Cut(m.name, "/")
	if !found {
		namespace, name = "", m.name
	}
	return kinds.Key{Kind: m.kind, Namespace: namespace, Name: name}
}
