package push

import (
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pgmesh/pgmesh/discovery/envoyfilter"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/division"
	"github.com/pgmesh/pgmesh/discovery/translate/memory"
	"github.com/pgmesh/pgmesh/discovery/translate/scoped"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// routes holds those of a shared view, in the form that its proxies take.
type routes struct {
	configurations *served.Set
	hosts          parts[virtualhost.Host] // for proxies that take them as resources of their own
	scopes         parts[scoped.Route]     // for routers whose routes are sent host by host

	memory *memory.Memory // what was made so far under the shared view's conditions
	// unpatched are the patches that failed on a resource.
	unpatched []*envoyfilter.Failure
}

// withoutInputs returns the same routes without a record of their inputs, so that the next update
// makes all of them.
func (r routes) withoutInputs() routes {
	r.memory, r.hosts.made, r.scopes.made = nil, nil, nil
	return r
}

// routing says what changed since the routes were made.
type routing struct {
	before  *sharedView
	since   *mesh.ScopeChange // nil if the conditions may have changed, too
	changed map[string]bool   // hosts with another service or policy
}

// route brings the routes up to date, in the cheapest way that the change allows.
func (x *sharedView) route(e *Engine, v view.View, r *routing) {
	if x.routes.hosts.made != nil && r.since != nil && x.generations.listened == r.before.generations.listened {
		begun := time.Now()
		if news, ok := x.routes.memory.Rerouted(v, r.before.scope, r.since, r.changed); ok {
			e.translated(VirtualHostType, begun, x.routes.hosts.change(news.Hosts, news.Gone, x.host(e)))
			return
		}
	}
	if x.routes.scopes.made != nil && r.since != nil && len(r.changed) == 0 {
		begun := time.Now()
		if changed, ok := x.routes.memory.ReroutedByHost(v); ok {
			x.routes.rerouteByHost(e, begun, changed, x.host(e))
			return
		}
	}
	if x.routes.memory == nil {
		x.routes.memory = memory.New(x.configCache.routes)
	}
	x.routes.memory.Recall(v, func(host string) bool { return r.changed[host] })
	patches := envoyfilter.For(e.mesh, x.proxy())
	switch patched := patches.Patches(envoyfilter.InRoutes...); {
	case x.key.divided && patched:
		x.routes.replaceParts(e, v, patches.Routes(division.Whole(v, x.routes.memory)))
	case x.key.divided:
		x.routes.update(e, division.Of(v, x.routes.memory), x.host(e))
	default:
		x.routes.replace(e, patches.Routes(division.Whole(v, x.routes.memory)))
	}
	x.routes.unpatched = patches.Failures()
}

// replace makes whole route configurations.
func (r *routes) replace(e *Engine, configurations []*routev3.RouteConfiguration) {
	begun := time.Now()
	made := encode(&e.once, configurations, (*routev3.RouteConfiguration).GetName, nil)
	e.translated(RouteType, begun, made)
	r.configurations = made.over(r.configurations)
}

// replaceParts divides whole configurations into parts. Patches want to see them whole.
func (r *routes) replaceParts(e *Engine, v view.View, whole []*routev3.RouteConfiguration) {
	begun := time.Now()
	var configurations []*routev3.RouteConfiguration
	var hosts []*routev3.VirtualHost
	var scopes []*routev3.ScopedRouteConfiguration
	for _, w := range whole {
		d := division.Patched(v, w)
		configurations, hosts, scopes = append(configurations, d.Configuration), append(hosts, d.Hosts...), append(scopes, d.Scopes...)
	}
	e.translated(VirtualHostType, begun, r.hosts.replace(encodeHosts(e, hosts...)))
	begun = time.Now()
	e.translated(ScopedRouteType, begun, r.scopes.replace(encodeScopes(e, scopes...)))
	r.replace(e, configurations)
}

// update makes the parts that are not the same as before.
func (r *routes) update(e *Engine, divisions []division.Division, host func(virtualhost.Host) *madePart[virtualhost.Host]) {
	begun := time.Now()
	var configurations []*routev3.RouteConfiguration
	var hosts []virtualhost.Host
	var scopes []scoped.Route
	for _, d := range divisions {
		configurations, hosts, scopes = append(configurations, d.Configuration), append(hosts, d.Hosts...), append(scopes, d.Scopes...)
	}
	e.translated(VirtualHostType, begun, r.hosts.update(hosts, host))
	begun = time.Now()
	e.translated(ScopedRouteType, begun, r.scopes.update(scopes, e.scope))
	r.replace(e, configurations)
}

// rerouteByHost makes the hosts that have other routes: their scopes and their virtual hosts.
func (r *routes) rerouteByHost(e *Engine, begun time.Time, changed memory.ByHost, host func(virtualhost.Host) *madePart[virtualhost.Host]) {
	e.translated(ScopedRouteType, begun, r.scopes.change(changed.Scopes, changed.Gone, e.scope))
	begun = time.Now()
	e.translated(VirtualHostType, begun, r.hosts.change(changed.Hosts, changed.Gone, host))
}

// host returns what makes virtual hosts for this shared view.
func (x *sharedView) host(e *Engine) func(virtualhost.Host) *madePart[virtualhost.Host] {
	return func(h virtualhost.Host) *madePart[virtualhost.Host] { return x.configCache.hosts.make(e, h) }
}

func (e *Engine) scope(s scoped.Route) *madePart[scoped.Route] {
	return &madePart[scoped.Route]{s, encodeScopes(e, s.Make())}
}

func encodeHosts(e *Engine, hosts ...*routev3.VirtualHost) made {
	return encode(&e.once, hosts, (*routev3.VirtualHost).GetName, nil)
}

func encodeScopes(e *Engine, scopes ...*routev3.ScopedRouteConfiguration) made {
	return encode(&e.once, scopes, (*routev3.ScopedRouteConfiguration).GetName, nil)
}
