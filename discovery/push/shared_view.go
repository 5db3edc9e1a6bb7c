package push

import (
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/discovery/demand"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate"
	"github.com/pgmesh/pgmesh/internal/ads"
)

// sharedView is shared by the proxies that see the same of the mesh and have the same traits, whatever they serve themselves: the clusters and
// endpoints of the services that they see, and the routes to them.
type sharedView struct {
	classes     map[*class]bool
	key         sharedViewKey
	configCache *configCache

	// What it was made from.
	scope          *mesh.Scope
	frontend       *mesh.Frontend // of routers
	patches        []mesh.Patch
	backends       []translate.Backend
	backendConfigs []*backendConfig
	listened       []any

	clusters, endpoints, names *ads.Set
	routes                     routes
	outbound                   map[listens]made // listeners
	asked                      *demand.Hosts    // by what proxies on demand ask for; nil if there is none

	generations generations
}

// sharedViewKey is what the proxies of a shared view have in common.
type sharedViewKey struct {
	mesh.Traits

	namespace, domain, addresses, patches string
	exposes                               string // of routers: what makes their frontends
	divided                               bool   // they take virtual hosts by themselves
}

// generations say which inputs of a shared view have changed: each input gets a new generation when it does, and pointers are compared.
type generations struct {
	conditions *generation // all but services, and rules for them
	backends   *generation // services, with their endpoints, and policies
	shapes     *generation // services but for their endpoints, and policies
	listened   *generation // what listeners are made from
}

// generation is one state of an input. Only its address counts: two states have two addresses.
type generation struct{ _ byte }

func sharedViewKeyOf(c classKey) sharedViewKey {
	key := sharedViewKey{
		Traits: c.Traits, namespace: c.Namespace, domain: c.Domain, addresses: c.Addresses, patches: c.Patches, divided: c.divided,
	}
	if c.Type == mesh.Router {
		key.exposes = c.Targets
	}
	return key
}

// clone is a shared view that begins with what this one has, which may be nil.
func (x *sharedView) clone() *sharedView {
	if x == nil {
		return &sharedView{}
	}
	copied := *x
	copied.routes, copied.outbound, copied.asked = x.routes.forgetful(), nil, nil
	return &copied
}

// proxy is any of them: translation of what the shared view has cannot tell them apart.
func (x *sharedView) proxy() *mesh.Proxy { return anyOf(x.classes).of.configured }

// update brings the shared view to a new state of the mesh.
func (x *sharedView) update(e *Engine) {
	proxy := x.proxy()
	s := translate.ViewOf(e.mesh, proxy)
	cache := e.caches.of(conditions{x.key.Traits, e.mesh.Surroundings(), s.PassesTLS()})
	patches := e.mesh.Patches(proxy)
	var frontend *mesh.Frontend
	if proxy.Type == mesh.Router {
		frontend = e.mesh.Frontend(proxy)
	}
	if s.Scope() == x.scope && cache == x.configCache && frontend == x.frontend && slices.Equal(patches, x.patches) {
		return
	}
	alike := x.scope != nil && s.Scope().Sidecar == x.scope.Sidecar && cache == x.configCache && slices.Equal(patches, x.patches)
	same := alike && frontend == x.frontend
	before := *x
	x.scope, x.frontend, x.patches, x.configCache = s.Scope(), frontend, patches, cache
	if cache != before.configCache {
		x.routes = x.routes.forgetful()
	}
	x.compose(e, s, &before)
	changed := x.changedHosts(before.backends)
	x.look(&before, s, same, changed)
	if x.generations.shapes != before.generations.shapes {
		x.name(e, s)
	}
	if !same || x.generations.routed(&before, x) {
		x.route(e, s, &before, alike, changed)
	}
}

// compose finds the configurations of what the proxies see.
func (x *sharedView) compose(e *Engine, s translate.View, before *sharedView) {
	x.backends = s.BackendsAfter(before.backends, before.scope)
	if x.configCache == before.configCache && before.backendConfigs != nil && sameBackends(x.backends, before.backends) {
		return
	}
	x.backendConfigs = make([]*backendConfig, len(x.backends))
	for i, b := range x.backends {
		if x.backendConfigs[i] = x.configBefore(before, i); x.backendConfigs[i] == nil {
			x.backendConfigs[i] = e.make(x.configCache, s, b)
		}
	}
	went, came := difference(before.backendConfigs, x.backendConfigs)
	x.clusters = exchanged(x.clusters, went, came, func(p *backendConfig) *made { return &p.clusters })
	x.endpoints = exchanged(x.endpoints, went, came, func(p *backendConfig) *made { return &p.endpoints })
}

// configBefore is that of a backend, if it was in the same place before, or in the same place from the end; otherwise nil.
func (x *sharedView) configBefore(before *sharedView, i int) *backendConfig {
	if x.configCache != before.configCache {
		return nil
	}
	for _, at := range [...]int{i, i + len(before.backends) - len(x.backends)} {
		if 0 <= at && at < len(before.backends) && before.backends[at] == x.backends[i] {
			return before.backendConfigs[at]
		}
	}
	return nil
}

// sameBackends tells whether two lists are one.
func sameBackends(a, b []translate.Backend) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// look compares with what was seen before.
func (x *sharedView) look(before *sharedView, s translate.View, same bool, changed map[string]bool) {
	if !same {
		x.generations.conditions = new(generation)
	}
	if !same || !slices.Equal(x.backends, before.backends) {
		x.generations.backends = new(generation)
	}
	sameShapes := same && slices.EqualFunc(x.backends, before.backends, sameShape) &&
		slices.EqualFunc(x.scope.Egress, before.scope.Egress, func(a, b *mesh.Egress) bool {
			return slices.EqualFunc(a.Services, b.Services, func(s, t *mesh.Service) bool { return s.Shape == t.Shape })
		})
	if !sameShapes {
		x.generations.shapes = new(generation)
	}
	if sameShapes && !x.connectsAnew(before) || same && s.ListensAlike(before.scope, x.listened, changed) {
		return
	}
	x.listened = s.Listened()
	if !same || !slices.Equal(x.listened, before.listened) {
		x.generations.listened, x.outbound = new(generation), map[listens]made{}
	}
}

// connectsAnew tells whether rules have changed that may be for connections.
func (x *sharedView) connectsAnew(before *sharedView) bool {
	return !slices.EqualFunc(x.scope.Egress, before.scope.Egress, func(a, b *mesh.Egress) bool {
		return slices.EqualFunc(a.VirtualServices, b.VirtualServices, func(v, w *mesh.VirtualService) bool {
			return v == w || !translate.ForConnections(v) && !translate.ForConnections(w)
		})
	})
}

// changedHosts are the hosts that have other services than before, or other rules for them.
func (x *sharedView) changedHosts(before []translate.Backend) map[string]bool {
	now := x.backends
	if sameBackends(before, now) {
		return nil
	}
	for len(before) > 0 && len(now) > 0 && sameShape(before[0], now[0]) {
		before, now = before[1:], now[1:]
	}
	for len(before) > 0 && len(now) > 0 && sameShape(before[len(before)-1], now[len(now)-1]) {
		before, now = before[:len(before)-1], now[:len(now)-1]
	}
	was := make(map[string]translate.Backend, len(before))
	for _, b := range before {
		was[b.Service.Hostname] = b
	}
	hosts := map[string]bool{}
	for _, b := range now {
		host := b.Service.Hostname
		if old, there := was[host]; !there || !sameShape(old, b) {
			hosts[host] = true
		}
		delete(was, host)
	}
	for host := range was {
		hosts[host] = true
	}
	return hosts
}

func sameShape(a, b translate.Backend) bool {
	return a.Service.Shape == b.Service.Shape && a.Rule == b.Rule
}

// routed tells whether something changed that routes are made from.
func (l *generations) routed(before, now *sharedView) bool {
	return l.shapes != before.generations.shapes || !slices.EqualFunc(before.scope.Egress, now.scope.Egress, func(a, b *mesh.Egress) bool {
		return slices.Equal(a.VirtualServices, b.VirtualServices)
	})
}

// name makes the table of names.
func (x *sharedView) name(e *Engine, s translate.View) {
	begun, names := time.Now(), made{}
	if table := s.NameTable(); table != nil {
		names = encodeNames(&e.once, table)
	}
	e.translated(NameTableType, begun, names)
	x.names = names.over(x.names)
}
