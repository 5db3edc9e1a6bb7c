package demand

import (
	"maps"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Hosts are the virtual hosts that some classes see, indexed by what proxies ask for. There may be
// thousands of hosts, and as many classes.
type Hosts struct {
	configurations, set *served.Set
	shape               *generation
	news                news

	routes map[string]*domains        // by route configuration
	asked  map[*served.Resource]*host // in the form for proxies on demand, if one has asked for it
	named  *named                     // clusters of virtual hosts that are inside their route configurations
}

// NewHosts returns the hosts of classes that see nothing.
func NewHosts() *Hosts {
	return &Hosts{routes: map[string]*domains{}, asked: map[*served.Resource]*host{}, named: newNamed()}
}

// update brings the index up to date with route configurations and virtual hosts. Classes that
// share the hosts all call it; only the first call after a change does anything.
func (h *Hosts) update(configurations, set *served.Set) {
	if h.shape != nil && configurations == h.configurations && set == h.set {
		return
	}
	before, configured := h.set, h.configurations
	h.news = news{since: h.shape, few: configurations == h.configurations}
	h.configurations, h.set, h.shape = configurations, set, new(generation)
	for _, name := range configurations.Changed(configured) {
		r := configurations.Get(name)
		h.named.update(configured.Get(name), r)
		if r != nil {
			h.domainsOf(name).configure(r)
		} else {
			delete(h.routes, name)
		}
	}
	h.updateHosts(before)
}

// newsSince says what changed since the hosts had another shape.
func (h *Hosts) newsSince(shape *generation) news {
	switch shape {
	case h.shape:
		return news{few: true}
	case h.news.since:
		return h.news
	}
	return news{}
}

func (h *Hosts) domainsOf(routes string) *domains {
	if h.routes[routes] == nil {
		h.routes[routes] = newDomains()
	}
	return h.routes[routes]
}

// updateHosts takes domains from the virtual hosts that had them before it gives them to those that
// have them now.
func (h *Hosts) updateHosts(before *served.Set) {
	h.news.hosts = h.set.Changed(before)
	for _, name := range h.news.hosts {
		was, is := before.Get(name), h.set.Get(name)
		delete(h.asked, was)
		domains := domainsOf(is)
		if was == nil || is == nil || !slices.Equal(domainsOf(was), domains) || slices.Contains(domains, anyHost) {
			h.news.few = false
		}
	}
	if h.news.few {
		return
	}
	for _, name := range h.news.hosts {
		for _, domain := range domainsOf(before.Get(name)) {
			h.domainsOf(routesOf(name)).remove(domain, name)
		}
	}
	for _, name := range h.news.hosts {
		for _, domain := range domainsOf(h.set.Get(name)) {
			h.domainsOf(routesOf(name)).add(domain, name)
		}
	}
}

// routesOf is the route configuration in a virtual host's name, or in the name that a proxy asks
// for.
func routesOf(name string) string { return name[:max(0, strings.LastIndexByte(name, '/'))] }

// hostOf is the host in the name that a proxy asks for.
func hostOf(alias string) string { return alias[strings.LastIndexByte(alias, '/')+1:] }

// host returns a virtual host in the form that a proxy on demand is given.
func (h *Hosts) host(name string) *host {
	r := h.set.Get(name)
	one := h.asked[r]
	if one == nil {
		one = newHost(r)
		h.asked[r] = one
	}
	return one
}

// of returns the virtual hosts of a proxy, and the clusters that they need.
func (h *Hosts) of(a *Asked) (given []*served.Resource, needed map[string]bool) {
	aliases := map[string][]string{}
	for routes, d := range h.routes {
		switch {
		case h.forAll(d):
			aliases[d.forAny()] = nil
		case d.separate: // a starting proxy waits for an answer about each such route configuration
			given = append(given, nothing(routes+"/"))
		}
	}
	for name := range a.kept {
		if h.set.Get(name) != nil {
			aliases[name] = nil
		}
	}
	for _, alias := range slices.Sorted(maps.Keys(a.names)) {
		d := h.routes[routesOf(alias)]
		name := d.find(hostOf(alias))
		if name == "" || name == d.forAny() && h.forAll(d) {
			given = append(given, nothing(alias))
		} else {
			aliases[name] = append(aliases[name], alias)
		}
	}
	needed = map[string]bool{}
	for name, as := range aliases {
		one := h.host(name)
		given = append(given, one.as(as))
		for _, cluster := range one.needs {
			needed[cluster] = true
		}
	}
	return given, needed
}

// forAll reports whether all proxies have the virtual host for unknown hosts, because it needs no
// clusters that they do not have.
func (h *Hosts) forAll(d *domains) bool {
	name := d.forAny()
	return name != "" && len(h.host(name).needs) == 0
}
