package zookeeper

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/service"
	"github.com/pgmesh/pgmesh/registry/zookeeper/tree"
)

// format is a way in which services are registered.
type format interface {
	shape() tree.Shape
	// read reads a leaf, whose path is that below the root.
	read(path string, content []byte) (entry, error)
	// services are those of a group, of which there is something.
	services(group string, all []*entry) ([]*service.Service, error)
}

// entry is what a leaf says. One that says nothing to the mesh is empty.
type entry struct {
	instance *instance
	override *override
}

func (e *entry) equal(other *entry) bool {
	same := e.override == other.override || e.override != nil && other.override != nil && *e.override == *other.override
	return same && e.instance.equal(other.instance)
}

// group is what is below one child of the root: a service, or an interface of Dubbo.
type group struct {
	entries map[string]*entry // by path below the root; as they were when they could be read
	wrong   map[string]error  // what cannot be read now
	made    []*kinds.Resource
	told    string // what is wrong, as it was told
}

// mesh is what the mesh has of a registry. It is the tree.Listener.
type mesh struct {
	*Registry

	format format
	sink   registry.Sink
	groups map[string]*group
	whole  bool
	away   string
}

// Told implements tree.Listener.
func (m *mesh) Told(leaves []tree.Leaf) {
	touched := map[string]bool{}
	for i := range leaves {
		name, _, _ := strings.Cut(leaves[i].Path, "/")
		if m.take(name, &leaves[i]) {
			touched[name] = true
		}
	}
	var changes []kinds.Change
	for name := range touched {
		changes = append(changes, m.remake(name)...)
	}
	if m.whole && len(changes) > 0 {
		m.sink.Apply(changes)
	}
}

// take takes a leaf, and reports whether it is other than before. One that cannot be read stays as it
// was.
func (m *mesh) take(name string, leaf *tree.Leaf) bool {
	g := m.groups[name]
	if g == nil {
		g = &group{entries: map[string]*entry{}, wrong: map[string]error{}}
		m.groups[name] = g
	}
	wrong := g.wrong[leaf.Path]
	delete(g.wrong, leaf.Path)
	before := g.entries[leaf.Path]
	if leaf.Gone {
		delete(g.entries, leaf.Path)
		return true
	}
	err := leaf.Err
	if err == nil {
		var now entry
		if now, err = m.format.read(leaf.Path, leaf.Content); err == nil {
			g.entries[leaf.Path] = &now
			return wrong != nil || before == nil || !before.equal(&now)
		}
	}
	g.wrong[leaf.Path] = err
	return wrong == nil || wrong.Error() != err.Error()
}

// remake makes what a group is anew, and says what is different.
func (m *mesh) remake(name string) []kinds.Change {
	g := m.groups[name]
	all := make([]*entry, 0, len(g.entries))
	for _, path := range slices.Sorted(maps.Keys(g.entries)) {
		if e := g.entries[path]; *e != (entry{}) {
			all = append(all, e)
		}
	}
	now, err := m.resources(name, all)
	if err != nil {
		m.say(name, g, err)
		return nil
	}
	m.say(name, g, g.fault())
	changes := registry.Changes(g.made, now)
	g.made = now
	if len(g.entries) == 0 && len(g.wrong) == 0 {
		delete(m.groups, name)
	}
	return changes
}

func (m *mesh) resources(name string, all []*entry) ([]*kinds.Resource, error) {
	if !slices.ContainsFunc(all, func(e *entry) bool { return e.instance != nil }) {
		return nil, nil
	}
	services, err := m.format.services(name, all)
	if err != nil {
		return nil, err
	}
	var out []*kinds.Resource
	for _, s := range services {
		made, err := s.Resources(m.name)
		if err != nil {
			return nil, err
		}
		out = append(out, made...)
	}
	return out, nil
}

// fault says what is wrong in a group: one thing of all, so that it does not change with their order.
func (g *group) fault() error {
	if len(g.wrong) == 0 {
		return nil
	}
	path := slices.Min(slices.Collect(maps.Keys(g.wrong)))
	_, name, below := strings.Cut(path, "/")
	switch {
	case !below:
		return g.wrong[path]
	case len(g.wrong) > 1:
		return fmt.Errorf("%s: %w (and %d more)", name, g.wrong[path], len(g.wrong)-1)
	}
	return fmt.Errorf("%s: %w", name, g.wrong[path])
}

// say tells of what is wrong with a group when that changes.
func (m *mesh) say(name string, g *group, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != g.told {
		g.told = text
		m.sink.Bad(m.entry(name), err)
	}
}

// Whole implements tree.Listener.
func (m *mesh) Whole() {
	if !m.whole {
		m.whole = true
		var all []*kinds.Resource
		for _, g := range m.groups {
			all = append(all, g.made...)
		}
		m.sink.Replace(all)
	}
	if m.away != "" {
		m.away = ""
		m.sink.Away(nil)
	}
}

// Away implements tree.Listener. Each reason is told once.
func (m *mesh) Away(err error) {
	if text := err.Error(); text != m.away {
		m.away = text
		m.sink.Away(err)
	}
}
