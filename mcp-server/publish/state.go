package publish

import (
	"maps"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
)

// State is the complete content of a publisher at one moment. It is immutable.
type State struct {
	Mesh string
	At   Position
	// AsOf is when this was last known to be the newest state of the mesh.
	AsOf time.Time
	Sets map[*kinds.Kind]*served.Set
	// Joined is what registries had.
	Joined []JoinedState
	mark   string // tells states at one position apart
}

// JoinedState is what a registry had.
type JoinedState struct {
	Name string
	// AsOf is when this was last known to be the newest.
	AsOf    time.Time
	Content map[*kinds.Kind]map[string]*served.Resource
}

// Mark tells the state from others of its mesh.
func (s *State) Mark() string { return s.At.String() + s.mark }

// Len returns the number of resources.
func (s *State) Len() (n int) {
	for _, set := range s.Sets {
		n += set.Len()
	}
	for _, joined := range s.Joined {
		for _, content := range joined.Content {
			n += len(content)
		}
	}
	return n
}

// State returns what is served; nil if nothing is.
func (p *Publisher) State() *State {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.loaded {
		return nil
	}
	s := &State{Mesh: p.source.Mesh, At: p.at, AsOf: p.source.Stale, Sets: map[*kinds.Kind]*served.Set{}, mark: p.layers.mark()}
	for _, k := range kinds.WithSecrets() {
		if set := p.base[k]; set != nil || k != kinds.Secret { // secrets may be unknown
			s.Sets[k] = set
		}
	}
	now := time.Now()
	if s.AsOf.IsZero() {
		s.AsOf = now
	}
	for _, l := range p.layers.list {
		joined := JoinedState{Name: l.name, AsOf: l.stands.Stale, Content: map[*kinds.Kind]map[string]*served.Resource{}}
		if joined.AsOf.IsZero() {
			joined.AsOf = now
		}
		for kind, content := range l.content {
			joined.Content[kind] = maps.Clone(content)
		}
		s.Joined = append(s.Joined, joined)
	}
	return s
}

// Prime gives the saved state to a publisher that serves nothing yet. Resume serves it; until then
// a source of the same mesh is compared with it.
func (p *Publisher) Prime(s *State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.primed, p.sets, p.at = s, maps.Clone(s.Sets), s.At
	p.next = Source{Name: File, Mesh: s.Mesh, Stale: s.AsOf, Saved: true}
	for _, joined := range s.Joined {
		p.layers.recall(joined)
	}
	p.layers.anew = true
	p.begin()
}

// Resume serves the primed state if nothing is served yet, and reports whether it did.
func (p *Publisher) Resume() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loaded || p.primed == nil || p.held != nil {
		return false
	}
	s := p.primed
	anew := p.layers.anew
	p.layers.onto(s.Sets)
	p.layers.anew = anew && !maps.Equal(s.Sets, p.sets) // of another mesh is what comes next
	p.source = Source{Name: File, Mesh: s.Mesh, Stale: s.AsOf, Saved: true, Err: p.lost}
	p.publish(s.Sets, s.At, time.Time{})
	return true
}

// Primed reports whether there is a state to resume from or to compare a source with.
func (p *Publisher) Primed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loaded || p.primed != nil
}

// SavedMesh returns the mesh of the state that was saved; "" if there is none.
func (p *Publisher) SavedMesh() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.primed == nil {
		return ""
	}
	return p.primed.Mesh
}

// At returns the position that a source is compared with.
func (p *Publisher) At() Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

// Versions returns the versions of the resources that a source is compared with, and their mesh.
func (p *Publisher) Versions() (mesh string, versions map[kinds.Key]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	versions = map[kinds.Key]string{}
	for kind, set := range p.sets {
		if kind == kinds.Secret { // a source that uses this has no secrets
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
