// Package demand picks, out of what a class of proxies has, the part that one of them uses.
//
// A proxy on demand does not start with all virtual hosts and the clusters behind them. When a
// request matches no virtual host that it has, it asks for one, by the name <route
// configuration>/<host>, and holds the request until it gets an answer: a virtual host with that
// name as an alias, or, if there is none, a resource of that name without a body. It keeps what it
// asked for, with the clusters that those virtual hosts name, until it ends.
//
// Translation knows nothing of this. Proxies with and without share what they are sent, except for
// virtual hosts: this package changes those for proxies on demand.
package demand

import (
	"maps"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

var (
	clusterType   = typeOf(&clusterv3.Cluster{})
	listenerType  = typeOf(&listenerv3.Listener{})
	routeType     = typeOf(&routev3.RouteConfiguration{})
	extensionType = typeOf(&corev3.TypedExtensionConfig{})
	hostType      = typeOf(&routev3.VirtualHost{})
)

func typeOf(m proto.Message) string {
	return "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName())
}

// lazyPrefix begins the names of services' clusters. A proxy is given those with the virtual hosts
// that need them, and all other clusters from the start.
const lazyPrefix = "outbound"

func lazy(cluster string) bool { return strings.HasPrefix(cluster, lazyPrefix) }

// Whole is all that a class has, with indexes to find a part of it quickly.
type Whole struct {
	sets  map[string]*served.Set
	hosts *Hosts
	// shape changes when parts may have changed in more than what is the same for all.
	shape, hostsShape *generation
	news              news // what changed the shape

	named map[string]*named // clusters by what names them, for each type that does
	fixed map[string]bool   // clusters that are not lazy
}

// generation is one state of an input. Only its address counts: two states have two addresses.
type generation struct{ _ byte }

// news says what an update changed.
type news struct {
	since *generation // the shape before it
	// few says that nothing else changed than these virtual hosts and clusters: their contents, but
	// not who has them.
	few             bool
	hosts, clusters []string
}

// NewWhole returns one that has nothing.
func NewWhole() *Whole {
	return &Whole{
		sets: map[string]*served.Set{}, fixed: map[string]bool{},
		named: map[string]*named{listenerType: newNamed(), extensionType: newNamed(), clusterType: newNamed()},
	}
}

// Update brings it up to date with what the class has now. Its cost is that of the change. The
// hosts are shared by all classes that see the same.
func (w *Whole) Update(sets map[string]*served.Set, hosts *Hosts) {
	before := w.sets
	w.sets, w.hosts = maps.Clone(sets), hosts
	hosts.update(sets[routeType], sets[hostType])
	changed := func(typeURL string) bool { return sets[typeURL] != before[typeURL] }
	if hosts.shape == w.hostsShape && !changed(clusterType) && !changed(listenerType) && !changed(extensionType) {
		return
	}
	w.news = hosts.newsSince(w.hostsShape)
	w.news.since = w.shape
	w.shape, w.hostsShape = new(generation), hosts.shape
	w.updateClusters(before[clusterType])
	for typeURL, named := range w.named {
		for _, name := range sets[typeURL].Changed(before[typeURL]) {
			if typeURL != clusterType || !lazy(name) {
				w.news.few = false
				named.update(before[typeURL].Get(name), sets[typeURL].Get(name))
			}
		}
	}
}

// updateClusters records which clusters changed. If one came or went, proxies may have to be given
// other parts.
func (w *Whole) updateClusters(before *served.Set) {
	now := w.sets[clusterType]
	w.news.clusters = now.Changed(before)
	for _, name := range w.news.clusters {
		if (before.Get(name) == nil) == (now.Get(name) == nil) {
			continue
		}
		w.news.few = false
		if w.fixed[name] = !lazy(name) && now.Get(name) != nil; !w.fixed[name] {
			delete(w.fixed, name)
		}
	}
}

// Asked records what one proxy has asked for, and what it was given for that.
type Asked struct {
	names map[string]bool
	// kept are virtual hosts that the proxy has from an earlier connection, and may be using. It
	// may have asked for them by other names then, or have been given all.
	kept map[string]bool
	// held are clusters that it has from an earlier stream. They stay until it says which virtual
	// hosts it has.
	held []string
	part map[string]*served.Set
	// shape is that of the whole that the part was chosen from; nil if it has asked for more since.
	shape *generation
}

// NewAsked returns the record of a proxy that has asked for nothing.
func NewAsked() *Asked {
	return &Asked{names: map[string]bool{}, kept: map[string]bool{}, part: map[string]*served.Set{}}
}

// Hear records the names that a proxy asks for, and what it has of that type from an earlier
// stream.
func (a *Asked) Hear(typeURL string, names []string, held map[string]string) {
	a.shape = nil
	switch typeURL {
	case clusterType:
		a.held = slices.Collect(maps.Keys(held))
	case hostType:
		a.held = nil
		for name := range held {
			a.kept[name] = true
		}
		for _, name := range names {
			if name != "*" {
				a.names[name] = true
			}
		}
	}
}

// Keep makes a proxy keep everything that it has.
func (a *Asked) Keep(sets map[string]*served.Set) {
	a.shape = nil
	for r := range sets[hostType].All() {
		a.kept[r.Name] = true
	}
}

// Forget records that a proxy no longer asks for a name.
func (a *Asked) Forget(name string) {
	a.shape = nil
	delete(a.names, name)
}

// Part returns what a proxy is given. A set that changed since the last call is another set.
func (w *Whole) Part(a *Asked) map[string]*served.Set {
	part := maps.Clone(w.sets)
	if w.sameFor(a) {
		part[hostType], part[clusterType] = a.part[hostType], a.part[clusterType]
	} else {
		hosts, clusters := w.choose(a)
		part[hostType], part[clusterType] = exactly(a.part[hostType], hosts), exactly(a.part[clusterType], clusters)
	}
	a.part, a.shape = part, w.shape
	return part
}

// sameFor reports whether a proxy has the virtual hosts and the clusters that it should have. After
// most changes of a mesh that takes few comparisons.
func (w *Whole) sameFor(a *Asked) bool {
	if a.shape == nil || a.shape != w.shape && (a.shape != w.news.since || !w.news.few) {
		return false
	}
	has := func(typeURL string, names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return a.part[typeURL].Get(name) != nil })
	}
	return a.shape == w.shape || !has(hostType, w.news.hosts) && !has(clusterType, w.news.clusters)
}

// choose finds the virtual hosts and the clusters for a proxy.
func (w *Whole) choose(a *Asked) (hosts, clusters []*served.Resource) {
	hosts, needed := w.hosts.of(a)
	for _, name := range a.held {
		needed[name] = true
	}
	for _, named := range w.named {
		named.addTo(needed)
	}
	w.hosts.named.addTo(needed)
	maps.Copy(needed, w.fixed)
	for name := range needed {
		if r := w.sets[clusterType].Get(name); r != nil {
			clusters = append(clusters, r)
		}
	}
	return hosts, clusters
}

// exactly returns the set with these resources and no others. It shares what is the same.
func exactly(set *served.Set, resources []*served.Resource) *served.Set {
	keep := make(map[string]bool, len(resources))
	for _, r := range resources {
		keep[r.Name] = true
	}
	var gone []string
	for r := range set.All() {
		if !keep[r.Name] {
			gone = append(gone, r.Name)
		}
	}
	return set.With(resources, gone)
}
