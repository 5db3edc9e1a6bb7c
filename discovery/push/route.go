package push

import (
	"maps"
	"slices"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pgmesh/pgmesh/discovery/envoyfilter"
	"github.com/pgmesh/pgmesh/discovery/translate"
	"github.com/pgmesh/pgmesh/internal/ads"
)

// routes are those of a sight, in the form that its proxies take.
type routes struct {
	configurations *ads.Set
	hosts          *ads.Set // of proxies that take them by themselves

	// What was made so far in the conditions that the sight has.
	memory *translate.Memory
	made   []*madeHost
	// unpatched are the patches that were not applied to a resource.
	unpatched []*envoyfilter.Failure
}

// madeHost is a virtual host with what it was made from.
type madeHost struct {
	translate.Host
	made
}

// forgetful are the same routes, without what tells how they were made.
func (r routes) forgetful() routes {
	r.memory, r.made = nil, nil
	return r
}

// route makes the routes.
func (x *sight) route(e *Engine, s translate.Sight, before *sight) {
	if x.routes.made != nil && x.looks.shapes == before.looks.shapes {
		begun := time.Now()
		if hosts, ok := s.Rerouted(x.routes.memory, before.scope); ok {
			e.translated(VirtualHostType, begun, x.routes.reroute(e, hosts))
			return
		}
	}
	if x.routes.memory == nil {
		x.routes.memory = translate.NewMemory(x.shelf.routes)
	}
	s = s.Recall(x.routes.memory, x.changedHosts(before.backends))
	patches := envoyfilter.For(e.mesh, x.proxy())
	switch patched := patches.Patches(envoyfilter.InRoutes...); {
	case x.key.divided && patched:
		x.routes.replaceHosts(e, patches.Routes(s.Routes()))
	case x.key.divided:
		x.routes.update(e, s.Divisions())
	default:
		x.routes.replace(e, patches.Routes(s.Routes()))
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

// replaceHosts divides whole configurations, as patches want them.
func (r *routes) replaceHosts(e *Engine, whole []*routev3.RouteConfiguration) {
	begun := time.Now()
	var configurations []*routev3.RouteConfiguration
	var all []*routev3.VirtualHost
	for _, w := range whole {
		d := translate.Divide(w)
		configurations, all = append(configurations, d.Configuration), append(all, d.Hosts...)
	}
	hosts := encodeHosts(e, all...)
	e.translated(VirtualHostType, begun, hosts)
	r.hosts, r.made = hosts.over(r.hosts), nil
	r.replace(e, configurations)
}

// update makes those hosts that are not the same as before.
func (r *routes) update(e *Engine, divisions []translate.Division) {
	begun := time.Now()
	var configurations []*routev3.RouteConfiguration
	var hosts []translate.Host
	for _, d := range divisions {
		configurations, hosts = append(configurations, d.Configuration), append(hosts, d.Hosts...)
	}
	news := r.updateHosts(e, hosts)
	e.translated(VirtualHostType, begun, news)
	r.replace(e, configurations)
}

func (r *routes) updateHosts(e *Engine, hosts []translate.Host) (news made) {
	before, now := r.made, make([]*madeHost, len(hosts))
	first, last := 0, 0 // how many are the same from the beginning on, and from the end
	for first < min(len(before), len(hosts)) && before[first].Same(hosts[first]) {
		now[first] = before[first]
		first++
	}
	for last < min(len(before), len(hosts))-first && before[len(before)-1-last].Same(hosts[len(hosts)-1-last]) {
		last++
		now[len(now)-last] = before[len(before)-last]
	}
	old := make(map[string]*madeHost, len(before)-first-last)
	for _, host := range before[first : len(before)-last] {
		old[host.Name()] = host
	}
	for i := first; i < len(hosts)-last; i++ {
		h := hosts[i]
		if now[i] = old[h.Name()]; now[i] == nil || !now[i].Same(h) {
			now[i] = &madeHost{h, encodeHosts(e, h.Make())}
			news.add(now[i].made)
		}
		delete(old, h.Name())
	}
	if r.made == nil { // nobody knows what there was
		r.hosts = news.over(r.hosts)
	} else {
		r.hosts = r.hosts.With(news.resources, slices.Collect(maps.Keys(old)))
	}
	r.made = now
	return news
}

// reroute makes those hosts anew that have other routes.
func (r *routes) reroute(e *Engine, hosts []translate.Host) (news made) {
	for _, h := range hosts {
		at := slices.IndexFunc(r.made, func(other *madeHost) bool { return other.Name() == h.Name() })
		if !r.made[at].Same(h) {
			r.made[at] = &madeHost{h, encodeHosts(e, h.Make())}
			news.add(r.made[at].made)
		}
	}
	r.hosts = r.hosts.With(news.resources, nil)
	return news
}

func encodeHosts(e *Engine, hosts ...*routev3.VirtualHost) made {
	return encode(&e.once, hosts, (*routev3.VirtualHost).GetName, nil)
}
