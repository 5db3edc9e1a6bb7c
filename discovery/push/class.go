package push

import (
	"iter"
	"maps"
	"slices"
	"time"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/pgmesh/pgmesh/discovery/demand"
	"github.com/pgmesh/pgmesh/discovery/envoyfilter"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate"
	"github.com/pgmesh/pgmesh/discovery/translate/cluster"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// class is a set of proxies that are sent the same: what their shared view has, and what is their
// own.
type class struct {
	members    map[*member]bool
	of         *member // any of its members: translation cannot tell them apart
	sharedView *sharedView

	from     ingredients
	clusters *served.Set // the shared view's clusters that are merged in; nil if patches make all clusters the class's own
	own      made        // clusters that the shared view does not have
	sets     map[string]*served.Set
	// unpatched has, by type, the patches that failed on a resource.
	unpatched map[string][]*envoyfilter.Failure
	current   *served.Snapshot
	whole     *demand.Whole // set if its proxies are on demand
	circle    uint32        // the number of the circle that it was found in last; 0 for none yet
}

// newClass returns a class that starts with what an old one has, so that only differences are sent.
// The old one may be nil.
func newClass(old *class) *class {
	if old == nil {
		return &class{members: map[*member]bool{}, sets: map[string]*served.Set{}, unpatched: map[string][]*envoyfilter.Failure{}}
	}
	c := *old
	c.sets, c.unpatched, c.whole = maps.Clone(old.sets), maps.Clone(old.unpatched), nil
	c.from = ingredients{} // its inputs are another proxy's
	return &c
}

// ingredients are the inputs of what a class does not share. Comparing them tells which parts have
// to be made again.
type ingredients struct {
	sharedView  *sharedView
	generations generations
	targets     []mesh.Target
	rules       []*mesh.DestinationRule // of the services that the workloads serve
	secrets     []*mesh.Secret
	authorities *mesh.Authorities // that resources of the Gateway API name
	// policies are what incoming requests have to pass, and authorizers are the external services
	// that those may ask.
	policies    []*mesh.AuthorizationPolicy
	authorizers *mesh.Authorizers
	tokens      *mesh.TokenRules // for incoming requests
	// telemetry is what is told of requests and connections, and reached encodes which services
	// that goes to they see.
	telemetry *mesh.Telemetry
	reached   string
	trust     *mesh.Trust
	// extensions are those that are for the proxies; what listeners have of them is in the class's
	// key. pullSecrets are what their modules are pulled with.
	extensions  []*mesh.Extension
	pullSecrets []*mesh.Secret
}

// ingredients collects the present inputs of the class's own parts. It must stay cheap: every class
// does so at every push.
func (c *class) ingredients(m *mesh.Mesh) ingredients {
	now := ingredients{
		sharedView: c.sharedView, generations: c.sharedView.generations, targets: m.Targets(c.of.configured), secrets: m.SecretsFor(c.of.configured),
		authorities: m.Authorities(),
		policies:    m.AuthorizationPolicies(c.of.configured), authorizers: m.Authorizers(),
		tokens: m.TokenRules(c.of.configured), telemetry: m.Telemetry(c.of.configured), trust: m.Trust(), extensions: m.Extensions(c.of.configured),
	}
	if len(now.extensions) > 0 {
		now.pullSecrets = m.PullSecrets(c.of.configured)
	}
	now.reached = now.telemetry.Reached(c.sharedView.scope)
	for _, t := range now.targets {
		now.rules = append(now.rules, c.sharedView.scope.InboundDestinationRule(t.Service.Hostname))
	}
	return now
}

// serves reports whether the workloads serve the same as before, under the same DestinationRules.
func (i *ingredients) serves(before *ingredients) bool {
	return slices.EqualFunc(i.targets, before.targets, mesh.Target.Same) && slices.Equal(i.rules, before.rules)
}

// tells reports whether the same is told of requests and connections as before.
func (i *ingredients) tells(before *ingredients) bool {
	return i.telemetry == before.telemetry && i.reached == before.reached
}

// guards reports whether incoming requests have to pass the same as before.
func (i *ingredients) guards(before *ingredients) bool {
	asks := func(a *mesh.AuthorizationPolicy) bool {
		return a.Spec.GetAction() == security.AuthorizationPolicy_CUSTOM
	}
	return i.trust == before.trust && slices.Equal(i.policies, before.policies) && (i.authorizers == before.authorizers || !slices.ContainsFunc(i.policies, asks))
}

// update brings the class to the mesh that its shared view has reached. If nothing changes for its
// proxies, it keeps its snapshot. There may be as many classes as proxies, so a class with nothing
// to remake costs a few comparisons only.
func (c *class) update(e *Engine) {
	now := c.ingredients(e.mesh)
	for i := range ownParts {
		p := &ownParts[i]
		if now.sharedView == c.from.sharedView && p.same(&now, &c.from) {
			continue
		}
		begun, patches := time.Now(), envoyfilter.For(e.mesh, c.of.configured)
		made := p.make(e, c, view.Of(e.mesh, c.of.configured), patches)
		e.translated(p.typeURL, begun, made)
		c.put(p.typeURL, made.over(c.sets[p.typeURL]))
		c.fail(p.typeURL, patches.Failures())
	}
	c.updateClusters(e, &now)
	c.put(EndpointType, c.sharedView.endpoints)
	c.put(NameTableType, c.sharedView.names)
	c.put(RouteType, c.sharedView.routes.configurations)
	c.put(VirtualHostType, c.sharedView.routes.hosts.set)
	c.put(ScopedRouteType, c.sharedView.routes.scopes.set)
	c.from = now
	if c.current == nil {
		c.current = &served.Snapshot{Revision: e.revision, Push: e.pushes, Sets: maps.Clone(c.sets)}
	}
	c.narrow()
}

// put sets what the class's proxies get of a type.
func (c *class) put(typeURL string, set *served.Set) {
	if old, there := c.sets[typeURL]; !there || old != set {
		c.sets[typeURL], c.current = set, nil
	}
}

// fail records the patches of a type that failed.
func (c *class) fail(typeURL string, failures []*envoyfilter.Failure) {
	if delete(c.unpatched, typeURL); len(failures) > 0 {
		c.unpatched[typeURL] = failures
	}
}

// updateClusters merges the shared view's clusters with the class's own.
func (c *class) updateClusters(e *Engine, now *ingredients) {
	sameOwn := now.sharedView == c.from.sharedView && now.generations.conditions == c.from.generations.conditions && now.serves(&c.from)
	if c.of.key.Patches != "" && c.patchClusters(e, sameOwn && now.generations.backends == c.from.generations.backends) {
		return
	}
	own := c.own
	if !sameOwn {
		begun := time.Now()
		own = encodeClusters(&e.once, cluster.Own(view.Of(e.mesh, c.of.configured)))
		e.translated(ClusterType, begun, own)
		c.fail(ClusterType, nil)
	}
	if c.clusters != c.sharedView.clusters || !sameOwn {
		c.put(ClusterType, c.withOwn(own, sameOwn))
		c.clusters, c.own = c.sharedView.clusters, own
	}
}

// patchClusters makes all clusters for the class alone, if a patch may change clusters. It reports
// whether one may. If same is set, those that it has are still right.
func (c *class) patchClusters(e *Engine, same bool) bool {
	begun, patches := time.Now(), envoyfilter.For(e.mesh, c.of.configured)
	if !patches.Patches(networking.EnvoyFilter_CLUSTER) {
		return false
	}
	if !same {
		all := encodeClusters(&e.once, patches.Clusters(translate.Clusters(view.Of(e.mesh, c.of.configured))))
		e.translated(ClusterType, begun, all)
		c.clusters, c.own = nil, all
		c.put(ClusterType, all.over(c.sets[ClusterType]))
		c.fail(ClusterType, patches.Failures())
	}
	return true
}

// withOwn returns the class's set after the shared view's clusters or its own have changed. It
// touches only names that differ. Most often only the shared view's have changed, in the same way
// for all its classes.
func (c *class) withOwn(own made, sameOwn bool) *served.Set {
	shared := c.sharedView.clusters
	if c.clusters == nil && c.sets[ClusterType] == nil {
		return shared.Branch().WithAsIn(shared, own.resources, nil)
	}
	change := c.sharedView.clustersSince(c.clusters)
	if sameOwn && len(change.gone) == 0 {
		return c.sets[ClusterType].WithAsIn(shared, change.upserts, nil)
	}
	keep := map[string]bool{}
	for name := range own.names() {
		keep[name] = true
	}
	for _, r := range change.upserts {
		keep[r.Name] = true
	}
	gone := slices.AppendSeq(slices.Clone(change.gone), c.own.names())
	gone = slices.DeleteFunc(gone, func(name string) bool { return keep[name] })
	return c.sets[ClusterType].WithAsIn(shared, slices.Concat(own.resources, change.upserts), gone)
}

// failures yields the patches that failed for the class, type by type.
func (c *class) failures() iter.Seq[[]*envoyfilter.Failure] {
	return func(yield func([]*envoyfilter.Failure) bool) {
		if !yield(c.sharedView.routes.unpatched) {
			return
		}
		for _, failures := range c.unpatched {
			if !yield(failures) {
				return
			}
		}
	}
}
