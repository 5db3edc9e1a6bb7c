// Package push decides who needs what when the mesh changes.
//
// Proxies whose inputs are the same form a class: what they are sent is translated, encoded and hashed once. A change is
// translated for each class, and of the result only what differs from before goes out; a resource's version is the hash of its
// bytes, so a proxy that comes back, also to another replica, is sent only what differs too.
package push

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/discovery/envoyfilter"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/ads"
)

// Engine holds the classes and brings them to each new state of the mesh.
type Engine struct {
	log *slog.Logger

	mu       sync.Mutex
	mesh     *mesh.Mesh // nil until the first state has come: proxies wait
	revision string
	classes  map[mesh.Class]*class
	members  map[*ads.Subscriber]*member

	classCount prometheus.GaugeFunc
	proxyCount prometheus.GaugeFunc
	translate  prometheus.Histogram
	invalid    prometheus.Counter
	denials    *denials
	tellers    tellers
}

// class is a set of proxies that get the same.
type class struct {
	proxy *mesh.Proxy // any of them: translation cannot tell them apart
	sets  map[string]*ads.Set
	// unpatched has, by type, the patches that were not applied to a resource.
	unpatched map[string][]*envoyfilter.Failure
	current   *ads.Snapshot
	members   int
}

// member is one connected proxy.
type member struct {
	proxy *mesh.Proxy
	key   mesh.Class
	class *class // nil while there is no mesh yet
	// denied are the secrets that it has asked for in vain. Some may have come since.
	denied map[string]bool
}

// New returns an engine that has no mesh yet.
func New(log *slog.Logger, metrics prometheus.Registerer) *Engine {
	e := &Engine{
		log: log, classes: map[mesh.Class]*class{}, members: map[*ads.Subscriber]*member{},
		denials: newDenials(metrics), tellers: newTellers(log, metrics),
	}
	gauge := func(name, help string, count func() int) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			e.mu.Lock()
			defer e.mu.Unlock()
			return float64(count())
		})
	}
	e.classCount = gauge("pgmesh_discovery_classes", "Sets of proxies that get the same.", func() int { return len(e.classes) })
	e.proxyCount = gauge("pgmesh_discovery_proxies", "Proxies that are connected.", func() int { return len(e.members) })
	e.translate = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "pgmesh_discovery_translate_seconds",
		Help:    "Time to translate one state of the mesh for all classes.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5},
	})
	e.invalid = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "pgmesh_discovery_invalid_total",
		Help: "Translated resources that were not sent because Envoy would refuse them; the last good state of each stays in force.",
	})
	metrics.MustRegister(e.classCount, e.proxyCount, e.translate, e.invalid)
	return e
}

// Open takes in a proxy by the node it introduces itself with.
func (e *Engine) Open(_ context.Context, node *corev3.Node) (*ads.Subscriber, error) {
	proxy, err := mesh.ParseProxy(node)
	if err != nil {
		e.log.Warn("refused a proxy", "node", node.GetId(), "error", err)
		return nil, status.Errorf(codes.InvalidArgument, "node %q: %v", node.GetId(), err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var s *ads.Subscriber
	s = ads.NewSubscriber(func() { e.leave(s) })
	m := &member{proxy: proxy}
	e.members[s] = m
	if e.mesh != nil {
		e.join(m)
		s.Offer(m.class.current)
	}
	return s, nil
}

func (e *Engine) leave(s *ads.Subscriber) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.quit(e.members[s])
	delete(e.members, s)
}

// join puts a proxy into its class, which is made if it is the first of it.
func (e *Engine) join(m *member) {
	proxy := e.mesh.Configured(m.proxy)
	m.key = e.mesh.Class(proxy)
	c, ok := e.classes[m.key]
	if !ok {
		c = &class{proxy: proxy, sets: map[string]*ads.Set{}, unpatched: map[string][]*envoyfilter.Failure{}}
		e.report(c.update(e.mesh, e.revision, everything))
		e.classes[m.key] = c
		e.tellOfClasses()
	}
	c.members++
	m.class = c
}

// quit takes a proxy out of its class, which ends with the last.
func (e *Engine) quit(m *member) {
	if m.class == nil {
		return
	}
	m.class.members--
	if m.class.members == 0 {
		delete(e.classes, m.key)
		if m.key.Type == mesh.Router || len(m.class.unpatched) > 0 { // its problems may have ended with it
			e.tellOfClasses()
		}
	}
	m.class = nil
}

// Update brings every class to a new state of the mesh, to which the given changes have led.
func (e *Engine) Update(m *mesh.Mesh, revision int64, changes []Change) {
	e.update(m, strconv.FormatInt(revision, 10), changes)
	e.tellers.between.tell(strconv.FormatInt(revision, 10), between(m)) // which keeps no proxy waiting
}

func (e *Engine) update(m *mesh.Mesh, revision string, changes []Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	start, previous := time.Now(), e.mesh
	e.mesh, e.revision = m, revision
	e.tellUnusable(changes)
	before, scoped := e.regroup(), allScoped(changes)
	for key, c := range e.classes {
		chosen := everything
		switch {
		case before[key] != c:
		case scoped && m.LooksLike(previous, c.proxy):
			chosen = func(p *part) bool { return p.ofSecrets() && p.concerns(changes) }
		case !m.SeesServicesOf(previous, c.proxy): // a change of routes alone can do that
		default:
			concerning := slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return !c.isFor(&key) })
			chosen = func(p *part) bool { return p.concerns(concerning) }
		}
		e.report(c.update(m, e.revision, chosen))
	}
	for s, member := range e.members {
		s.Offer(member.class.current)
	}
	e.tellOfClasses()
	e.translate.Observe(time.Since(start).Seconds())
}

// regroup sorts the proxies into classes by the new mesh, and returns the classes that there were. A class that still has members
// goes on with what it has; it is translated for one of those members, since a proxy that left it may no longer be like them.
func (e *Engine) regroup() map[mesh.Class]*class {
	before := e.classes
	e.classes = make(map[mesh.Class]*class, len(before))
	for _, m := range e.members {
		proxy := e.mesh.Configured(m.proxy)
		m.key = e.mesh.Class(proxy)
		c, ok := e.classes[m.key]
		if !ok {
			if c = before[m.key]; c == nil {
				c = &class{sets: map[string]*ads.Set{}, unpatched: map[string][]*envoyfilter.Failure{}}
			}
			c.proxy, c.members = proxy, 0
			e.classes[m.key] = c
		}
		c.members++
		m.class = c
	}
	return before
}

// report tells of what was left out because Envoy would refuse it.
func (e *Engine) report(invalid []error) {
	for _, err := range invalid {
		e.invalid.Inc()
		e.log.Error("what a resource of the mesh asks for is something that Envoy would refuse; proxies keep the last good state of it. "+
			"Correct the resource", "revision", e.revision, "error", err)
	}
}

// everything is the choice of all parts.
func everything(*part) bool { return true }

// allScoped tells whether no proxy but those that see the changed resources can tell that they changed.
func allScoped(changes []Change) bool {
	return !slices.ContainsFunc(changes, func(c Change) bool { return !c.scoped() })
}

// update translates the chosen parts anew and keeps of the result what differs.
func (c *class) update(m *mesh.Mesh, revision string, chosen func(*part) bool) (invalid []error) {
	for i := range parts {
		if p := &parts[i]; chosen(p) {
			patches := envoyfilter.For(m, c.proxy)
			resources, problems := p.translate(m, c.proxy, patches, c.sets[p.typeURL])
			c.sets[p.typeURL] = replaced(c.sets[p.typeURL], resources)
			if delete(c.unpatched, p.typeURL); len(patches.Failures()) > 0 {
				c.unpatched[p.typeURL] = patches.Failures()
			}
			invalid = append(invalid, problems...)
		}
	}
	c.current = &ads.Snapshot{Revision: revision, Sets: maps.Clone(c.sets)}
	return invalid
}

// replaced brings a set to exactly the given resources, by way of what differs.
func replaced(set *ads.Set, resources []*ads.Resource) *ads.Set {
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
