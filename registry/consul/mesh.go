package consul

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/consul/catalog"
)

// mesh is what the mesh has of all datacenters together. Each of them tells its part.
type mesh struct {
	*Registry

	mu    sync.Mutex
	sink  registry.Sink
	parts []*part
	made  map[string][]*kinds.Resource // by the names of services
	wrong wrong
	told  bool // Replace was called
	away  error
}

// part is one datacenter. It is the catalog.Listener of that.
type part struct {
	*mesh

	datacenter string
	read       bool
	away       error
	services   map[string][]catalog.Instance
}

func newMesh(r *Registry, sink registry.Sink) *mesh {
	return &mesh{Registry: r, sink: sink, made: map[string][]*kinds.Resource{}, wrong: wrong{}}
}

func (m *mesh) add(datacenter string) *part {
	p := &part{mesh: m, datacenter: datacenter, services: map[string][]catalog.Instance{}}
	m.parts = append(m.parts, p)
	return p
}

// All implements catalog.Listener. What cannot be read now stays as it was.
func (p *part) All(services map[string][]catalog.Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	touched := maps.Clone(services)
	for name := range p.services {
		if _, found := services[name]; !found && !p.wrong.has(name, p) {
			touched[name] = nil
		}
	}
	changes := p.take(touched)
	p.read = true
	p.tell(changes)
}

// Changed implements catalog.Listener.
func (p *part) Changed(services map[string][]catalog.Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tell(p.take(services))
}

// tell gives everything once every datacenter was read, and then changes. If one can never be read
// from the start, the others wait for it: its services must not be taken for gone.
func (m *mesh) tell(changes []kinds.Change) {
	switch {
	case m.told && len(changes) > 0:
		m.sink.Apply(changes)
	case !m.told && !slices.ContainsFunc(m.parts, func(p *part) bool { return !p.read }):
		m.told = true
		all := make([]*kinds.Resource, 0, len(m.made))
		for _, resources := range m.made {
			all = append(all, resources...)
		}
		m.sink.Replace(all)
	}
}

// take makes anew what services are, and returns what is different. Consul tells again of what has
// not changed: when the output of a check has, and when its agent begins to follow a service.
func (p *part) take(services map[string][]catalog.Instance) []kinds.Change {
	var changes []kinds.Change
	for name, all := range services {
		if name == catalog.Servers {
			continue
		}
		all = p.suits(all)
		if slices.EqualFunc(all, p.services[name], catalog.Instance.Equal) && !p.wrong.has(name, nil) {
			continue
		}
		if len(all) > 0 {
			p.services[name] = all
		} else {
			delete(p.services, name)
		}
		changes = append(changes, p.remake(name)...)
	}
	return changes
}

func (m *mesh) remake(name string) []kinds.Change {
	at := map[string][]catalog.Instance{}
	for _, p := range m.parts {
		if all := p.services[name]; len(all) > 0 {
			at[p.datacenter] = all
		}
	}
	var now []*kinds.Resource
	var err error
	if len(at) > 0 {
		now, err = m.resources(name, at, len(m.parts) > 1)
	}
	if m.sayBad(name, nil, err); err != nil {
		return nil
	}
	changes := registry.Changes(m.made[name], now)
	if m.made[name] = now; now == nil {
		delete(m.made, name)
	}
	return changes
}

// Bad implements catalog.Listener.
func (p *part) Bad(name string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sayBad(name, p, err)
}

// Away implements catalog.Listener.
func (p *part) Away(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = err
	var all []error
	for _, each := range p.parts {
		if each.away != nil {
			all = append(all, each.saying(each.away))
		}
	}
	p.sayAway(errors.Join(all...))
}

// sayAway says each reason once.
func (m *mesh) sayAway(err error) {
	if m.away != nil && err != nil && m.away.Error() == err.Error() || m.away == nil && err == nil {
		return
	}
	m.away = err
	m.sink.Away(err)
}
