package publish

import (
	"maps"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/kinds"
)

// State is all that a publisher has at a moment. It is immutable.
type State struct {
	Mesh string
	At   Position
	// AsOf is when this was known to be the newest state of the mesh.
	AsOf time.Time
	Sets map[*kinds.Kind]*ads.Set
}

// Len is the number of resources.
func (s *State) Len() (n int) {
	for _, set := range s.Sets {
		n += set.Len()
	}
	return n
}

// State returns what is served, nil if nothing is.
func (p *Publisher) State() *State {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.loaded {
		return nil
	}
	s := &State{Mesh: p.source.Mesh, At: p.at, AsOf: p.source.Stale, Sets: map[*kinds.Kind]*ads.Set{}}
	served := p.whole.Current()
	for _, k := range kinds.WithSecrets() {
		if set := served.Sets[k.TypeURL()]; set != nil || k != kinds.Secret { // of which nothing may be known
			s.Sets[k] = set
		}
	}
	if s.AsOf.IsZero() {
		s.AsOf = time.Now()
	}
	return s
}

// Prime gives a publisher that serves nothing yet what was served last. Clients are not served it before Resume; till then it is what a
// source of the same mesh is compared with.
func (p *Publisher) Prime(s *State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.primed, p.sets, p.at = s, maps.Clone(s.Sets), s.At
	p.next = Source{Name: File, Mesh: s.Mesh, Stale: s.AsOf, Saved: true}
}

// Resume serves what the publisher was primed with, if it serves nothing yet, and tells whether it did.
func (p *Publisher) Resume() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loaded || p.primed == nil {
		return false
	}
	s := p.primed
	p.source = Source{Name: File, Mesh: s.Mesh, Stale: s.AsOf, Saved: true, Err: p.lost}
	p.publish(s.Sets, s.At, time.Time{})
	return true
}

// Primed tells whether there is anything to Resume from, or to compare a source with.
func (p *Publisher) Primed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loaded || p.primed != nil
}

// At is the position of what a source is compared with.
func (p *Publisher) At() Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

// Held returns the versions of what a source is compared with, and the mesh that they are of.
func (p *Publisher) Held() (mesh string, versions map[kinds.Key]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	versions = map[kinds.Key]string{}
	for kind, set := range p.sets {
		if kind == kinds.Secret { // sources that are compared tell of none
			continue
		}
		for r := range set.All() {
			key := kinds.Key{Kind: kind, Name: r.Name}
			if namespace, name, ok := strings.Cut(r.Name, "/"); ok {
				key.Namespace, key.Name = namespace, name
			}
			versions[key] = r.Version
		}
	}
	return p.next.Mesh, versions
}
