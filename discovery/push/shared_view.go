package push

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/discovery/demand"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/dns"
	"github.com/pgmesh/pgmesh/discovery/translate/memory"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// sharedView holds what proxies have in common that see the same of the mesh and have the same
// traits, whatever they serve themselves: the clusters and endpoints of the services that they see,
// and the routes to them.
type sharedView struct {
	classes     map[*class]bool // those that use it; it goes with the last one
	key         sharedViewKey
	configCache *configCache

	// The inputs that it was made from.
	scope    *mesh.Scope
	frontend *mesh.Frontend // of routers
	patches  []mesh.Patch
	backends map[string]seen // by host
	listened []any           // what its listeners are made from, compared by pointer
	byRoutes []any           // of routers: what listeners are made from of the rules for requests
	of       *mesh.Mesh      // the mesh that it was brought to

	clusters, endpoints, names *served.Set
	clusterChange              *setChange // the last one that classes asked for
	routes                     routes
	outbound                   map[outboundKey]made // outbound listeners
	asked                      *demand.Hosts        // what proxies on demand ask for; nil if none is

	generations generations // tell classes which of these inputs changed
}

// sharedViewKey tells the shared views apart.
type sharedViewKey struct {
	mesh.Traits

	namespace, domain, addresses, patches string
	exposes                               string // of routers: what makes their frontends
	divided                               bool   // they take virtual hosts as resources of their own
}

// generations say which inputs of a shared view changed. An input gets a new generation when it
// changes, and two generations are compared by address.
type generations struct {
	conditions *generation // everything but services, and the rules and policies for them
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

// clone returns a shared view that starts with what this one has. The receiver may be nil.
func (x *sharedView) clone() *sharedView {
	if x == nil {
		return &sharedView{}
	}
	copied := *x
	copied.routes, copied.outbound, copied.asked = x.routes.withoutInputs(), nil, nil
	copied.backends = maps.Clone(x.backends)
	return &copied
}

// proxy returns any of its proxies: translation of a shared view cannot tell them apart.
func (x *sharedView) proxy() *mesh.Proxy { return anyOf(x.classes).of.configured }

// update brings the shared view to a new state of the mesh.
func (x *sharedView) update(e *Engine) {
	if x.of != nil && !e.mesh.TellsLike(x.of) {
		clear(x.outbound) // classes find theirs by what is told
	}
	x.of = e.mesh
	proxy := x.proxy()
	v := view.Of(e.mesh, proxy)
	cache := e.caches.of(conditions{x.key.Traits, e.mesh.Surroundings(), upstream.PassesTLS(v), upstream.PassesDatagrams(v), strings.Join(upstream.Shown(v), " ")})
	patches := e.mesh.Patches(proxy)
	var frontend *mesh.Frontend
	if proxy.Type == mesh.Router {
		frontend = e.mesh.Frontend(proxy)
	}
	if v.Scope == x.scope && cache == x.configCache && frontend == x.frontend && slices.Equal(patches, x.patches) {
		return
	}
	alike := x.scope != nil && v.Scope.Sidecar == x.scope.Sidecar && cache == x.configCache && slices.Equal(patches, x.patches)
	before := *x
	x.scope, x.frontend, x.patches, x.configCache = v.Scope, frontend, patches, cache
	if cache != before.configCache {
		x.routes = x.routes.withoutInputs()
	}
	if !alike {
		x.remake(e, v, &before)
		return
	}
	since := x.scope.Since(before.scope)
	e.scopeMoves.add(before.scope, x.scope, since)
	changed := x.replace(e, v, since.Hosts)
	x.follow(e, v, &before, since, changed)
}

// remake makes everything again: more than the scope and the frontend changed.
func (x *sharedView) remake(e *Engine, v view.View, before *sharedView) {
	hosts := slices.Collect(maps.Keys(x.backends))
	for _, service := range x.scope.Services {
		if _, known := x.backends[service.Hostname]; !known {
			hosts = append(hosts, service.Hostname)
		}
	}
	changed := x.replace(e, v, hosts)
	x.generations = generations{conditions: new(generation), backends: new(generation), shapes: new(generation), listened: new(generation)}
	x.listened, x.byRoutes, x.outbound = memory.Listened(v), memory.ByRoutes(v), map[outboundKey]made{}
	x.name(e, v)
	x.route(e, v, &routing{before: before, changed: changed.shapes})
}

// follow applies a change of the scope and of the frontend.
func (x *sharedView) follow(e *Engine, v view.View, before *sharedView, since *mesh.ScopeChange, changed changedBackends) {
	same := x.frontend.ListensAs(before.frontend)
	if !same {
		x.generations.conditions = new(generation)
	}
	if !same || changed.any {
		x.generations.backends = new(generation)
	}
	reshaped := !same || len(changed.shapes) > 0 || slices.ContainsFunc(since.Egress, func(c mesh.EgressChange) bool {
		come, ok := c.Reshaped()
		return !ok || len(come) > 0
	})
	if reshaped {
		x.generations.shapes = new(generation)
		x.name(e, v)
	}
	if byRoutes := x.byRoutes; reshaped || x.frontend != before.frontend { // else routes need what they did
		x.byRoutes = memory.ByRoutes(v)
		same = same && slices.Equal(byRoutes, x.byRoutes)
	}
	x.listen(v, since, same, reshaped, changed.shapes)
	if reshaped || x.frontend != before.frontend || slices.ContainsFunc(since.Egress, reruled) {
		x.route(e, v, &routing{before: before, since: since, changed: changed.shapes})
	}
}

// listen brings up to date what the proxies listen for.
func (x *sharedView) listen(v view.View, since *mesh.ScopeChange, same, reshaped bool, changed map[string]bool) {
	if same && (!reshaped && !memory.ListensAnew(v, since) || memory.ListensAlike(v, since, x.listened, changed)) {
		return
	}
	listened := memory.Listened(v)
	if !same || !slices.Equal(listened, x.listened) {
		x.generations.listened, x.outbound = new(generation), map[outboundKey]made{}
	}
	x.listened = listened
}

// reruled reports whether the rules of a listener changed.
func reruled(c mesh.EgressChange) bool {
	return len(c.VirtualServices.Gone)+len(c.VirtualServices.Come) > 0
}

// seen is a backend that the proxies see, with its configuration.
type seen struct {
	upstream.Backend

	config *backendConfig
}

// changedBackends says which backends a change replaced.
type changedBackends struct {
	any    bool            // at least one was replaced
	shapes map[string]bool // hosts whose service, apart from its endpoints, or whose policy changed
}

// replace updates the backends of some hosts, with their clusters and endpoints.
func (x *sharedView) replace(e *Engine, v view.View, hosts []string) (changed changedBackends) {
	if x.backends == nil {
		x.backends = make(map[string]seen, len(hosts))
	}
	var gone, come []*backendConfig
	for _, host := range hosts {
		was, known := x.backends[host]
		is := upstream.BackendFor(v, host)
		if is.Service == nil {
			delete(x.backends, host)
		} else {
			now := seen{is, e.make(x.configCache, v, is)}
			if now == was {
				continue
			}
			x.backends[host] = now
			come = append(come, now.config)
		}
		if known {
			gone = append(gone, was.config)
		}
		changed.add(host, was.Backend, is)
	}
	x.clusters = exchanged(x.clusters, gone, come, func(p *backendConfig) *made { return &p.clusters })
	x.endpoints = exchanged(x.endpoints, gone, come, func(p *backendConfig) *made { return &p.endpoints })
	return changed
}

// add records that a host's backend was replaced, and whether more than its endpoints changed.
func (c *changedBackends) add(host string, was, is upstream.Backend) {
	c.any = true
	if is.Service != nil && was.Service != nil && was.Service.Shape == is.Service.Shape && was.Rule == is.Rule && was.Policies.Session() == is.Policies.Session() &&
		was.Policies.SecuresAlike(is.Policies) {
		return
	}
	if c.shapes == nil {
		c.shapes = map[string]bool{}
	}
	c.shapes[host] = true
}

// name makes the table of names.
func (x *sharedView) name(e *Engine, v view.View) {
	begun, names := time.Now(), made{}
	if table := dns.NameTable(v); table != nil {
		names = encodeNames(&e.once, table)
	}
	e.translated(NameTableType, begun, names)
	x.names = names.over(x.names)
}
