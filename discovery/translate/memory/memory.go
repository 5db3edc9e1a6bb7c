// Package memory remembers what translation made for proxies before, so that the next translation
// makes only what has changed.
//
// The rest of translation are functions of what is there now. Only what is here depends on the last
// time: lists of routes and virtual hosts with what they were made from, and what listeners were
// made from, to be compared. What is remembered equals what would be made anew: random histories in
// discovery/push hold it to that.
package memory

import (
	"slices"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// Memory remembers the routes that were made for the proxies of one class, with what they were made
// from. The proxies' traits and the surroundings must have stayed the same.
type Memory struct {
	lists       *Lists
	now, before recollection
	changed     func(host string) bool
	bound       map[string]*boundRules // by route configuration of a router
	mixed       bool                   // some configuration is not for one port alone
}

// recollection is what one round through all routes asked for. What the next round does not ask for
// is forgotten.
type recollection struct {
	ruled   map[ruledKey]*ruledRoutes
	direct  map[directKey]*virtualhost.List
	domains map[*mesh.Shape]domains
	ports   map[egressPort]*portHosts
}

// New returns an empty memory for proxies that share lists with others.
func New(lists *Lists) *Memory { return &Memory{lists: lists, now: newRecollection()} }

func newRecollection() recollection {
	return recollection{
		ruled: map[ruledKey]*ruledRoutes{}, direct: map[directKey]*virtualhost.List{}, domains: map[*mesh.Shape]domains{}, ports: map[egressPort]*portHosts{},
	}
}

// Recall begins another round through all routes of a proxy. Changed reports hosts whose service,
// or policy, may have changed since the last round.
func (m *Memory) Recall(v view.View, changed func(host string) bool) {
	m.changed = changed
	m.before, m.now, m.bound, m.mixed = m.now, newRecollection(), map[string]*boundRules{}, false
	m.now.domains = make(map[*mesh.Shape]domains, len(v.Scope.Services))
}

// ForOnce returns a memory for a single round.
func ForOnce(v view.View) *Memory {
	m := New(NewLists())
	m.Recall(v, func(string) bool { return true })
	return m
}

// recalling is a view together with what is remembered for it.
type recalling struct {
	view.View

	memory *Memory
}

// destination is what routes depend on of a host that they send requests to.
type destination struct {
	onPort, inScope *mesh.Shape
	rule            *mesh.DestinationRule
	session         *gatewayapi.Session // by a policy
	// policies are those that may ask for TLS, if that leads to another cluster.
	policies *mesh.BackendPolicies
}

// ruled returns the routes of a rule.
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

// destinationsOf are the hosts that a rule sends requests to, as its routes depend on them.
func destinationsOf(c route.Context, hosts []string) []destination {
	out := make([]destination, len(hosts))
	for i, host := range hosts {
		policies := c.Scope.Policies(host)
		out[i] = destination{
			onPort: shapeOf(c.Service(host)), inScope: shapeOf(c.Scope.Service(host)), rule: c.Scope.DestinationRule(c.Proxy, host), session: policies.Session(),
		}
		if c.Shows != "" {
			out[i].policies = policies
		}
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
	key := directKeyOf(v.Proxy, v.Scope, s, port)
	return recalled(m.now.direct, m.before.direct, key, func() *virtualhost.List { return m.lists.toService(v, key, s) })
}

// domains are the Host headers by which a service is meant, and which of them are short forms.
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

// Begin notes that a route configuration will be divided.
func (m *Memory) Begin(v view.View, configuration string) {
	switch name := naming.ParseRoute(configuration); {
	case !v.Sidecar():
		m.bound[configuration] = bound(v, configuration)
	case mixesPorts(v, name):
		m.mixed = true
	}
}

// mixesPorts reports whether a configuration is for anything else than one port: a socket, a single
// service, or an HTTP proxy, whose requests name the port.
func mixesPorts(v view.View, name naming.Route) bool {
	return name.Full != naming.Number(name.Port) || name.AnyPort(route.EgressOf(v, name))
}

type egressPort struct {
	egress int // which of the scope's
	port   uint32
}

// OnPort lists the virtual hosts that are reached on a port, in the order of their names. It may be
// called several times in one round.
func (m *Memory) OnPort(v view.View, egress *mesh.Egress, port uint32) []virtualhost.Draft {
	at := egressPort{slices.Index(v.Scope.Egress, egress), port}
	if known := m.now.ports[at]; known != nil {
		return known.hosts
	}
	p := m.before.ports[at]
	if p == nil {
		p = &portHosts{port: at.port}
	}
	m.now.ports[at] = p
	p.update(recalling{v, m}, egress)
	return p.hosts
}
