package push

import (
	"time"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/cluster"
	"github.com/pgmesh/pgmesh/discovery/translate/endpoint"
	"github.com/pgmesh/pgmesh/discovery/translate/memory"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// backendConfig holds the clusters and endpoints made from one backend. All shared views that see
// the backend under the same conditions share it.
type backendConfig struct{ clusters, endpoints made }

// conditions are the inputs of a backendConfig besides the backend itself.
type conditions struct {
	traits          mesh.Traits
	surroundings    mesh.Surroundings
	passesTLS       bool
	passesDatagrams bool
	shown           string // credentials of what backends are shown
}

// configCache caches what was made under the same conditions: backend configurations, lists of
// routes, and virtual hosts.
type configCache struct {
	backendConfigs map[upstream.Backend]*backendConfig
	routes         *memory.Lists
	hosts          hosts
	sweep          int
}

// configCaches has a cache for each set of conditions that is in use.
type configCaches struct{ in map[conditions]*configCache }

func (all *configCaches) of(c conditions) *configCache {
	cache := all.in[c]
	if cache == nil {
		cache = &configCache{backendConfigs: map[upstream.Backend]*backendConfig{}, routes: memory.NewLists()}
		all.in[c] = cache
	}
	return cache
}

// forget drops the backend configurations that no shared view uses. To keep that cheap, it looks
// only when there are twice as many as after the last time.
func (all *configCaches) forget(sharedViews map[sharedViewKey]*sharedView) {
	used := map[*configCache][]*sharedView{}
	for _, x := range sharedViews {
		used[x.configCache] = append(used[x.configCache], x)
	}
	for c, cache := range all.in {
		if used[cache] == nil {
			delete(all.in, c)
		} else if len(cache.backendConfigs) >= max(cache.sweep, leastSwept) {
			cache.forget(used[cache])
		}
	}
}

func (c *configCache) forget(used []*sharedView) {
	live := make(map[upstream.Backend]*backendConfig, len(c.backendConfigs))
	for _, x := range used {
		for _, b := range x.backends {
			live[b.Backend] = b.config
		}
	}
	c.backendConfigs, c.sweep = live, 2*len(live)
}

// make translates a backend, or returns the configuration that the cache has for it.
func (e *Engine) make(s *configCache, v view.View, b upstream.Backend) *backendConfig {
	if p := s.backendConfigs[b]; p != nil {
		return p
	}
	p, begun := &backendConfig{}, time.Now()
	p.clusters = encodeClusters(&e.once, cluster.Of(v, b))
	e.translated(ClusterType, begun, p.clusters)
	begun = time.Now()
	p.endpoints = encodeEndpoints(&e.once, endpoint.Assignments(v, b))
	e.translated(EndpointType, begun, p.endpoints)
	s.backendConfigs[b] = p
	return p
}

// exchanged returns the set without the resources of the configurations in gone, and with those of
// the ones in come.
func exchanged(set *served.Set, gone, come []*backendConfig, of func(*backendConfig) *made) *served.Set {
	if len(gone)+len(come) == 0 && set != nil {
		return set
	}
	var upserts []*served.Resource
	keep := map[string]bool{}
	for _, p := range come {
		upserts = append(upserts, of(p).resources...)
		for name := range of(p).names() {
			keep[name] = true
		}
	}
	var removed []string
	for _, p := range gone {
		for name := range of(p).names() {
			if !keep[name] {
				removed = append(removed, name)
			}
		}
	}
	return set.With(upserts, removed)
}
