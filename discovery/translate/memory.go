package translate

import (
	"slices"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// Memory remembers the routes that were made for proxies of one class, with what they were made from beside the proxies' traits and the
// surroundings: those must have stayed the same.
type Memory struct {
	lists       *RouteLists
	now, before recollection
	changed     func(host string) bool
	bound       map[string]*boundRules // by route configuration of a router
	mixed       bool                   // a configuration was made that is not that of a port alone
}

// recollection is what was asked for in one go through all routes: what is not asked for in the next is forgotten.
type recollection struct {
	ruled   map[ruledKey]*ruledRoutes
	direct  map[directKey]*virtualhost.List
	domains map[*mesh.Shape]domains
	ports   map[egressPort]*portHosts
}

// NewMemory returns a memory of nothing, for proxies that share lists with others.
func NewMemory(lists *RouteLists) *Memory { return &Memory{lists: lists, now: newRecollection()} }

func newRecollection() recollection {
	return recollection{
		ruled: map[ruledKey]*ruledRoutes{}, direct: map[directKey]*virtualhost.List{}, domains: map[*mesh.Shape]domains{}, ports: map[egressPort]*portHosts{},
	}
}

// Recall begins another go through all routes of a proxy. Changed tells of hosts whose service, or the rule for it, is not known to be what it
// was in the last go.
func (s View) Recall(m *Memory, changed func(host string) bool) View {
	m.changed = changed
	m.before, m.now, m.bound, m.mixed = m.now, newRecollection(), map[string]*boundRules{}, false
	m.now.domains = make(map[*mesh.Shape]domains, len(s.View.Scope.Services))
	s.memory = m
	return s
}

// remembering is the view with a memory, which shares at least what this one go makes.
func (s View) remembering() View {
	if s.memory == nil {
		return s.Recall(NewMemory(NewRouteLists()), func(string) bool { return true })
	}
	return s
}

// destination is what routes depend on of a host that they send requests to.
type destination struct {
	onPort, inScope *mesh.Shape
	rule            *mesh.DestinationRule
}

// ruled are the routes of a rule.
func (m *Memory) ruled(c route.Context) *virtualhost.List {
	key := keyOf(c)
	known := m.now.ruled[key]
	if known == nil {
		known = m.before.ruled[key]
	}
	if known == nil {
		hosts := c.Rule.RequestsTo()
		known = m.lists.ofRule(c, key, hosts, destinationsOf(c, hosts))
	} else if from := destinationsOf(c, known.hosts); !slices.Equal(from, known.from) {
		known = m.lists.ofRule(c, key, known.hosts, from)
	}
	m.now.ruled[key] = known
	return known.list
}

func destinationsOf(c route.Context, hosts []string) []destination {
	out := make([]destination, len(hosts))
	for i, host := range hosts {
		out[i] = destination{shapeOf(c.Service(host)), shapeOf(c.Scope.Service(host)), c.Scope.DestinationRule(c.Proxy, host)}
	}
	return out
}

func shapeOf(s *mesh.Service) *mesh.Shape {
	if s == nil {
		return nil
	}
	return s.Shape
}

func (m *Memory) direct(v view.View, s *mesh.Service, port uint32) *virtualhost.List {
	key := directKey{s.Shape, port, v.Scope.DestinationRule(v.Proxy, s.Hostname)}
	return recalled(m.now.direct, m.before.direct, key, func() *virtualhost.List { return m.lists.toService(v, key, s) })
}

// domains are those by which a service is meant, and which of them are short.
type domains struct{ all, short []string }

func (m *Memory) domains(v view.View, s *mesh.Service) domains {
	return recalled(m.now.domains, m.before.domains, s.Shape, func() domains {
		all, short := virtualhost.Domains(s, v.Proxy)
		return domains{all, short}
	})
}

func recalled[K comparable, V any](now, before map[K]V, key K, makeOne func() V) V {
	if known, ok := now[key]; ok {
		return known
	}
	known, ok := before[key]
	if !ok {
		known = makeOne()
	}
	now[key] = known
	return known
}

type egressPort struct {
	egress int // which of the scope's
	port   uint32
}

// hostsOn are the virtual hosts of a port, which may be asked for several times in one go.
func (m *Memory) hostsOn(at egressPort, update func(*portHosts)) []virtualhost.Draft {
	if known := m.now.ports[at]; known != nil {
		return known.hosts
	}
	p := m.before.ports[at]
	if p == nil {
		p = &portHosts{port: at.port}
	}
	m.now.ports[at] = p
	update(p)
	return p.hosts
}
