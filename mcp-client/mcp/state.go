package mcp

import (
	"maps"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/kinds"
)

// state remembers the version of everything that was delivered. It outlives streams.
type state struct {
	versions map[*kinds.Kind]map[string]version
}

// version is that of one delivered resource, with the key that its removal is reported under.
type version struct {
	key   kinds.Key
	value string
}

func newState(held map[kinds.Key]string) *state {
	s := &state{versions: map[*kinds.Kind]map[string]version{}}
	for key, value := range held {
		if s.versions[key.Kind] == nil {
			s.versions[key.Kind] = map[string]version{}
		}
		s.versions[key.Kind][key.FullName()] = version{key, value}
	}
	return s
}

// held lists the versions of a kind, as a first request names them.
func (s *state) held(kind *kinds.Kind) map[string]string {
	held := make(map[string]string, len(s.versions[kind]))
	for name, v := range s.versions[kind] {
		held[name] = v.value
	}
	return held
}

// pending is what was received and not delivered yet: the versions that the state will have, and the changes that lead there.
type pending struct {
	base    *state
	changes map[kinds.Key]Change
	order   []kinds.Key
	wire    map[*kinds.Kind]map[string]version
	gone    map[*kinds.Kind]map[string]bool
}

func newPending(base *state) *pending {
	return &pending{
		base: base, changes: map[kinds.Key]Change{},
		wire: map[*kinds.Kind]map[string]version{}, gone: map[*kinds.Kind]map[string]bool{},
	}
}

// version returns what the state will hold under a name once everything pending is delivered.
func (p *pending) version(kind *kinds.Kind, name string) (version, bool) {
	if p.gone[kind][name] {
		return version{}, false
	}
	if v, ok := p.wire[kind][name]; ok {
		return v, true
	}
	v, ok := p.base.versions[kind][name]
	return v, ok
}

// names lists what the state will hold of a kind.
func (p *pending) names(kind *kinds.Kind) map[string]bool {
	names := map[string]bool{}
	for n := range p.base.versions[kind] {
		names[n] = !p.gone[kind][n]
	}
	for n := range p.wire[kind] {
		names[n] = !p.gone[kind][n]
	}
	maps.DeleteFunc(names, func(_ string, there bool) bool { return !there })
	return names
}

func (p *pending) put(kind *kinds.Kind, name, value string, r *kinds.Resource, body *anypb.Any) {
	delete(p.gone[kind], name)
	if p.wire[kind] == nil {
		p.wire[kind] = map[string]version{}
	}
	p.wire[kind][name] = version{r.Key(), value}
	p.change(Change{Key: r.Key(), Resource: r, Version: value, Body: body})
}

func (p *pending) remove(kind *kinds.Kind, name string) {
	v, ok := p.version(kind, name)
	if !ok {
		return
	}
	if _, delivered := p.base.versions[kind][name]; !delivered { // it came and went: nothing to tell
		delete(p.wire[kind], name)
		delete(p.changes, v.key)
		return
	}
	if p.gone[kind] == nil {
		p.gone[kind] = map[string]bool{}
	}
	p.gone[kind][name] = true
	p.change(Change{Key: v.key})
}

func (p *pending) change(c Change) {
	if _, again := p.changes[c.Key]; !again {
		p.order = append(p.order, c.Key)
	}
	p.changes[c.Key] = c
}

// batch lists the changes in the order in which their resources were first heard of.
func (p *pending) batch(end mark) Batch {
	b := Batch{Revision: end.revision, Mark: end.version, Changes: make([]Change, 0, len(p.order))}
	for _, key := range p.order {
		if c, ok := p.changes[key]; ok {
			b.Changes = append(b.Changes, c)
			delete(p.changes, key) // one that came, went and came again is in the order twice
		}
	}
	return b
}

// settle takes everything pending into the state.
func (p *pending) settle() {
	for kind, names := range p.wire {
		if p.base.versions[kind] == nil {
			p.base.versions[kind] = map[string]version{}
		}
		maps.Copy(p.base.versions[kind], names)
	}
	for kind, names := range p.gone {
		for n := range names {
			delete(p.base.versions[kind], n)
		}
	}
}
