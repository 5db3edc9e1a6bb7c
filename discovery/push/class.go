package push

import (
	"iter"
	"maps"
	"slices"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/demand"
	"github.com/pgmesh/pgmesh/discovery/envoyfilter"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate"
	"github.com/pgmesh/pgmesh/internal/ads"
)

// class is a set of proxies that get the same: what their sight has, and what is their own.
type class struct {
	members map[*member]bool
	of      *member // any of them: translation cannot tell them apart
	sight   *sight

	from     ingredients
	clusters *ads.Set // those of the sight that the class has; nil where patches make them the class's own
	own      made     // clusters beside those
	sets     map[string]*ads.Set
	// unpatched has, by type, the patches that were not applied to a resource.
	unpatched map[string][]*envoyfilter.Failure
	current   *ads.Snapshot
	whole     *demand.Whole // nil unless its proxies are on demand
}

// newClass returns a class that begins with what another has, which may be nil.
func newClass(old *class) *class {
	if old == nil {
		return &class{members: map[*member]bool{}, sets: map[string]*ads.Set{}, unpatched: map[string][]*envoyfilter.Failure{}}
	}
	c := *old
	c.sets, c.unpatched, c.whole = maps.Clone(old.sets), maps.Clone(old.unpatched), nil
	c.from = ingredients{} // made from another proxy
	return &c
}

// ingredients are what a class's own parts are made from.
type ingredients struct {
	sight   *sight
	looks   looks
	targets []mesh.Target
	rules   []*mesh.DestinationRule // for what the workloads serve
	secrets []*mesh.Secret
}

func (c *class) ingredients(m *mesh.Mesh) *ingredients {
	now := &ingredients{sight: c.sight, looks: c.sight.looks, targets: m.Targets(c.of.configured), secrets: m.SecretsFor(c.of.configured)}
	for _, t := range now.targets {
		now.rules = append(now.rules, c.sight.scope.InboundDestinationRule(t.Service.Hostname))
	}
	return now
}

// serves tells whether the workloads serve the same as before, by the same rules.
func (i *ingredients) serves(before *ingredients) bool {
	return slices.EqualFunc(i.targets, before.targets, mesh.Target.Same) && slices.Equal(i.rules, before.rules)
}

// update brings the class to the state of the mesh that its sight has been brought to. Where that changes nothing of what its proxies get,
// its snapshot stays the same one.
func (c *class) update(e *Engine) {
	now, before := c.ingredients(e.mesh), maps.Clone(c.sets)
	s := translate.SightOf(e.mesh, c.of.configured)
	for i := range ownParts {
		p := &ownParts[i]
		if now.sight == c.from.sight && p.same(now, &c.from) {
			continue
		}
		begun, patches := time.Now(), envoyfilter.For(e.mesh, c.of.configured)
		made := p.make(e, c, s, patches)
		e.translated(p.typeURL, begun, made)
		c.sets[p.typeURL] = made.over(c.sets[p.typeURL])
		c.fail(p.typeURL, patches.Failures())
	}
	c.updateClusters(e, s, now)
	c.sets[EndpointType], c.sets[NameTableType] = c.sight.endpoints, c.sight.names
	c.sets[RouteType], c.sets[VirtualHostType] = c.sight.routes.configurations, c.sight.routes.hosts
	c.from = *now
	if c.current == nil || !maps.Equal(before, c.sets) {
		c.current = &ads.Snapshot{Revision: e.revision, Sets: maps.Clone(c.sets)}
	}
	c.narrow()
}

func (c *class) fail(typeURL string, failures []*envoyfilter.Failure) {
	if delete(c.unpatched, typeURL); len(failures) > 0 {
		c.unpatched[typeURL] = failures
	}
}

// updateClusters puts the clusters of the sight and the class's own together.
func (c *class) updateClusters(e *Engine, s translate.Sight, now *ingredients) {
	sameOwn := now.sight == c.from.sight && now.looks.conditions == c.from.looks.conditions && now.serves(&c.from)
	begun, patches := time.Now(), envoyfilter.For(e.mesh, c.of.configured)
	if patches.Patches(networking.EnvoyFilter_CLUSTER) {
		if !sameOwn || now.looks.backends != c.from.looks.backends {
			all := encodeClusters(&e.once, patches.Clusters(translate.Clusters(e.mesh, c.of.configured)))
			e.translated(ClusterType, begun, all)
			c.clusters, c.own, c.sets[ClusterType] = nil, all, all.over(c.sets[ClusterType])
			c.fail(ClusterType, patches.Failures())
		}
		return
	}
	own := c.own
	if !sameOwn {
		own = encodeClusters(&e.once, s.OwnClusters())
		e.translated(ClusterType, begun, own)
		c.fail(ClusterType, nil)
	}
	if c.clusters != c.sight.clusters || !sameOwn {
		c.sets[ClusterType] = c.withOwn(own)
		c.clusters, c.own = c.sight.clusters, own
	}
}

// withOwn is the set of clusters after the sight's and the class's own have changed.
func (c *class) withOwn(own made) *ads.Set {
	if c.clusters == nil && c.sets[ClusterType] == nil {
		return c.sight.clusters.Branch().With(own.resources, nil)
	}
	upserts, keep := slices.Clone(own.resources), map[string]bool{}
	for name := range own.names() {
		keep[name] = true
	}
	gone := slices.Collect(c.own.names())
	for _, name := range c.sight.clusters.Changed(c.clusters) {
		if r := c.sight.clusters.Get(name); r != nil {
			upserts, keep[name] = append(upserts, r), true
		} else {
			gone = append(gone, name)
		}
	}
	gone = slices.DeleteFunc(gone, func(name string) bool { return keep[name] })
	return c.sets[ClusterType].With(upserts, gone)
}

// failures are the patches that were not applied for the class, of each type.
func (c *class) failures() iter.Seq[[]*envoyfilter.Failure] {
	return func(yield func([]*envoyfilter.Failure) bool) {
		if !yield(c.sight.routes.unpatched) {
			return
		}
		for _, failures := range c.unpatched {
			if !yield(failures) {
				return
			}
		}
	}
}
