package mcp

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/kinds"
)

// state is what the server has, as far as the client knows: what was delivered, and on top of that
// what is pending. It does not keep delivered resources, only their versions, to recognize changes.
// It outlives streams.
type state struct {
	kinds map[*kinds.Kind]*kindState
	// touched lists the resources pending in any list, once each and in order of arrival.
	touched []resourceID
}

// resourceID identifies a resource that was mentioned by the server.
type resourceID struct {
	kind *kinds.Kind
	name string
}

// kindState has the lists of one kind, since a server may be asked for a kind by more than one
// name.
type kindState struct {
	lists []*list // in order of precedence
	size  int     // how many resources were delivered
	next  int     // how many there will be with what is pending; computed by batch
}

// list is what a server has of a kind under one name.
type list struct {
	name      string // a type URL or a collection
	delivered map[string]*version
	pending   map[string]*version // nil if gone
}

// version is one version of a resource.
type version struct {
	// server is the server's version. content is a hash, used if those versions are not reliable.
	server  string
	content digest
	// resource is nil after delivery, and so is body.
	resource *kinds.Resource
	body     *anypb.Any
}

// same reports whether two versions have the same content.
func (v *version) same(other *version) bool {
	if v.content != (digest{}) || other.content != (digest{}) {
		return v.content == other.content
	}
	return v.server == other.server
}

// newState starts with the versions that the user already has.
func newState(held map[kinds.Key]string) *state {
	s := &state{kinds: map[*kinds.Kind]*kindState{}}
	for key, value := range held {
		s.list(key.Kind, key.Kind.TypeURL()).delivered[key.FullName()] = &version{server: value}
		s.kinds[key.Kind].size++
	}
	return s
}

// list returns the list of a name. A new one has the lowest precedence.
func (s *state) list(kind *kinds.Kind, name string) *list {
	h := s.kinds[kind]
	if h == nil {
		h = &kindState{}
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

// rank sorts the lists of a kind in the order of these names, the others last.
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

// versions returns the delivered versions under a name, for the first request.
func (s *state) versions(kind *kinds.Kind, name string) map[string]string {
	delivered := s.list(kind, name).delivered
	held := make(map[string]string, len(delivered))
	for n, v := range delivered {
		held[n] = v.server
	}
	return held
}

// find returns the current version of a resource, nil if there is none.
func (l *list) find(name string) *version {
	if v, pending := l.pending[name]; pending {
		return v
	}
	return l.delivered[name]
}

// all returns the names of all resources.
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

// empty reports whether the list has no resources.
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

// set makes a version pending, and adds the resource to touched unless it is already pending in
// some list.
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
	s.touched = append(s.touched, resourceID{kind, name})
}

// key returns the key of the resource.
func (m resourceID) key() kinds.Key {
	namespace, name, found := strings.Cut(m.name, "/")
	if !found {
		namespace, name = "", m.name
	}
	return kinds.Key{Kind: m.kind, Namespace: namespace, Name: name}
}
