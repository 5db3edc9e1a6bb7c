package push

import (
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/discovery/demand"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate"
	"github.com/pgmesh/pgmesh/internal/ads"
)

// sight is what proxies share that see the same of the mesh and have the same traits, whatever they serve themselves: the clusters and
// endpoints of the services that they see, and the routes to them.
type sight struct {
	classes map[*class]bool
	key     sightKey
	shelf   *shelf

	// What it was made from.
	scope    *mesh.Scope
	frontend *mesh.Frontend // of routers
	patches  []mesh.Patch
	backends []translate.Backend
	pieces   []*piece
	listened []any

	clusters, endpoints, names *ads.Set
	routes                     routes
	outbound                   map[listens]made // listeners
	asked                      *demand.Hosts    // by what proxies on demand ask for; nil if there is none

	looks looks
}

// sightKey is what proxies have in common that share a sight.
type sightKey struct {
	mesh.Traits

	namespace, domain, addresses, patches string
	exposes                               string // of routers: what makes their frontends
	divided                               bool   // they take virtual hosts by themselves
}

// looks tell of a sight what others are made from: each is another one when that has changed.
type looks struct {
	conditions *mark // all but services, and rules for them
	backends   *mark // services, with their endpoints, and policies
	shapes     *mark // services but for their endpoints, and policies
	listened   *mark // what listeners are made from
}

// mark is there to be told from another.
type mark struct{ _ byte }

func sightKeyOf(c classKey) sightKey {
	key := sightKey{
		Traits: c.Traits, namespace: c.Namespace, domain: c.Domain, addresses: c.Addresses, patches: c.Patches, divided: c.divided,
	}
	if c.Type == mesh.Router {
		key.exposes = c.Targets
	}
	return key
}

// clone is a sight that begins with what this one has, which may be nil.
func (x *sight) clone() *sight {
	if x == nil {
		return &sight{}
	}
	copied := *x
	copied.routes, copied.outbound, copied.asked = x.routes.forgetful(), nil, nil
	return &copied
}

// proxy is any of them: translation of what the sight has cannot tell them apart.
func (x *sight) proxy() *mesh.Proxy { return anyOf(x.classes).of.configured }

// update brings the sight to a new state of the mesh.
func (x *sight) update(e *Engine) {
	proxy := x.proxy()
	s := translate.SightOf(e.mesh, proxy)
	shelf := e.pieces.shelf(conditions{x.key.Traits, e.mesh.Surroundings(), s.PassesTLS()})
	patches := e.mesh.Patches(proxy)
	var frontend *mesh.Frontend
	if proxy.Type == mesh.Router {
		frontend = e.mesh.Frontend(proxy)
	}
	if s.Scope() == x.scope && shelf == x.shelf && frontend == x.frontend && slices.Equal(patches, x.patches) {
		return
	}
	alike := x.scope != nil && s.Scope().Sidecar == x.scope.Sidecar && shelf == x.shelf && slices.Equal(patches, x.patches)
	same := alike && frontend == x.frontend
	before := *x
	x.scope, x.frontend, x.patches, x.shelf = s.Scope(), frontend, patches, shelf
	if shelf != before.shelf {
		x.routes = x.routes.forgetful()
	}
	x.compose(e, s, &before)
	changed := x.changedHosts(before.backends)
	x.look(&before, s, same, changed)
	if x.looks.shapes != before.looks.shapes {
		x.name(e, s)
	}
	if !same || x.looks.routed(&before, x) {
		x.route(e, s, &before, alike, changed)
	}
}

// compose finds the pieces of what the proxies see.
func (x *sight) compose(e *Engine, s translate.Sight, before *sight) {
	x.backends = s.BackendsAfter(before.backends, before.scope)
	if x.shelf == before.shelf && before.pieces != nil && sameBackends(x.backends, before.backends) {
		return
	}
	x.pieces = make([]*piece, len(x.backends))
	for i, b := range x.backends {
		if x.pieces[i] = x.pieceBefore(before, i); x.pieces[i] == nil {
			x.pieces[i] = e.make(x.shelf, s, b)
		}
	}
	went, came := difference(before.pieces, x.pieces)
	x.clusters = exchanged(x.clusters, went, came, func(p *piece) *made { return &p.clusters })
	x.endpoints = exchanged(x.endpoints, went, came, func(p *piece) *made { return &p.endpoints })
}

// pieceBefore is that of a backend, if it was in the same place before, or in the same place from the end; otherwise nil.
func (x *sight) pieceBefore(before *sight, i int) *piece {
	if x.shelf != before.shelf {
		return nil
	}
	for _, at := range [...]int{i, i + len(before.backends) - len(x.backends)} {
		if 0 <= at && at < len(before.backends) && before.backends[at] == x.backends[i] {
			return before.pieces[at]
		}
	}
	return nil
}

// sameBackends tells whether two lists are one.
func sameBackends(a, b []translate.Backend) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// look compares with what was seen before.
func (x *sight) look(before *sight, s translate.Sight, same bool, changed map[string]bool) {
	if !same {
		x.looks.conditions = new(mark)
	}
	if !same || !slices.Equal(x.backends, before.backends) {
		x.looks.backends = new(mark)
	}
	sameShapes := same && slices.EqualFunc(x.backends, before.backends, sameShape) &&
		slices.EqualFunc(x.scope.Egress, before.scope.Egress, func(a, b *mesh.Egress) bool {
			return slices.EqualFunc(a.Services, b.Services, func(s, t *mesh.Service) bool { return s.Shape == t.Shape })
		})
	if !sameShapes {
		x.looks.shapes = new(mark)
	}
	if sameShapes && !x.connectsAnew(before) || same && s.ListensAlike(before.scope, x.listened, changed) {
		return
	}
	x.listened = s.Listened()
	if !same || !slices.Equal(x.listened, before.listened) {
		x.looks.listened, x.outbound = new(mark), map[listens]made{}
	}
}

// connectsAnew tells whether rules have changed that may be for connections.
func (x *sight) connectsAnew(before *sight) bool {
	return !slices.EqualFunc(x.scope.Egress, before.scope.Egress, func(a, b *mesh.Egress) bool {
		return slices.EqualFunc(a.VirtualServices, b.VirtualServices, func(v, w *mesh.VirtualService) bool {
			return v == w || !translate.ForConnections(v) && !translate.ForConnections(w)
		})
	})
}

// changedHosts are the hosts that have other services than before, or other rules for them.
func (x *sight) changedHosts(before []translate.Backend) map[string]bool {
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
func (l *looks) routed(before, now *sight) bool {
	return l.shapes != before.looks.shapes || !slices.EqualFunc(before.scope.Egress, now.scope.Egress, func(a, b *mesh.Egress) bool {
		return slices.Equal(a.VirtualServices, b.VirtualServices)
	})
}

// name makes the table of names.
func (x *sight) name(e *Engine, s translate.Sight) {
	begun, names := time.Now(), made{}
	if table := s.NameTable(); table != nil {
		names = encodeNames(&e.once, table)
	}
	e.translated(NameTableType, begun, names)
	x.names = names.over(x.names)
}
