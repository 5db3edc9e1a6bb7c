// Package demand finds the part of what a class of proxies has that one of them uses.
//
// A proxy on demand is not given all virtual hosts and the clusters behind them. It asks for the virtual host of a request that none of
// those it has is for, by the name <route configuration>/<host>, and holds the request until it is told: with that name as an alias of the
// virtual host, or as the name of a resource without a body if there is none. What it has asked for it has until it ends, with the
// clusters that the routes of those virtual hosts name.
//
// Translation knows nothing of it, and proxies with and without share what they are given, but for virtual hosts: what of them has to be
// said otherwise to a proxy on demand is said here.
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

// lazyPrefix begins the names of the clusters that proxies are given with the virtual hosts that need them: those of services. All others
// they have from the start.
const lazyPrefix = "outbound"

func lazy(cluster string) bool { return strings.HasPrefix(cluster, lazyPrefix) }

// Whole is all that a class has, with what finds a part of it quickly.
type Whole struct {
	sets  map[string]*served.Set
	hosts *Hosts
	// shape is another one when parts may have changed in more than what is the same for all.
	shape, hostsShape *generation
	news              news // what made the shape another one

	named map[string]*named // clusters by what names them, of each type that does
	fixed map[string]bool   // clusters that are not lazy
}

// generation is one state of an input. Only its address counts: two states have two addresses.
type generation struct{ _ byte }

// news are what an update has changed.
type news struct {
	since *generation // the shape before it
	// few tells that these virtual hosts and clusters are all: they have other contents, and are chosen as before.
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

// Update brings it to what the class has now, which costs what has changed. The hosts are those of all classes that see the same.
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

// Asked is what one proxy has asked for, and was given for it.
type Asked struct {
	names map[string]bool
	// kept are virtual hosts that it has from another life, when it may have asked for them by other names, or have been given all. It
	// may be using them.
	kept map[string]bool
	// held are clusters that it has from an earlier stream. They stay until it has said which virtual hosts it has.
	held []string
	part map[string]*served.Set
	// shape is that of the whole that the part was found in; nil when more was asked for since.
	shape *generation
}

// NewAsked returns that of a proxy that has asked for nothing.
func NewAsked() *Asked {
	return &Asked{names: map[string]bool{}, kept: map[string]bool{}, part: map[string]*served.Set{}}
}

// Hear takes in what a proxy asks for by name, and what it has of that type from an earlier stream.
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

// Keep has a proxy go on with all that it has.
func (a *Asked) Keep(sets map[string]*served.Set) {
	a.shape = nil
	for r := range sets[hostType].All() {
		a.kept[r.Name] = true
	}
}

// Forget takes in a name that a proxy no longer asks for.
func (a *Asked) Forget(name string) {
	a.shape = nil
	delete(a.names, name)
}

// Part is what a proxy is given: what has changed since it was last called is another set.
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

// sameFor tells whether a proxy has the virtual hosts and the clusters that it is to have. That is seen quickly after most changes of a mesh.
func (w *Whole) sameFor(a *Asked) bool {
	if a.shape == nil || a.shape != w.shape && (a.shape != w.news.since || !w.news.few) {
		return false
	}
	has := func(typeURL string, names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return a.part[typeURL].Get(name) != nil })
	}
	return a.shape == w.shape || !has(hostType, w.news.hosts) && !has(clusterType, w.news.clusters)
}

// choose finds the virtual hosts and the clusters of a proxy.
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

// exactly brings a set to the given resources, by way of what differs.
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
