// Package push decides which proxies need what when the mesh changes.
//
// Proxies with the same inputs form a class, and are sent the same. Classes that see the same of
// the mesh use one shared view: the clusters and endpoints of the services in it, and the routes to
// them. A backend configuration is what one service comes to; shared views under the same
// conditions use the same one. Each of these knows its inputs, so that a change remakes what it
// touches and nothing else. A resource's version is the hash of its bytes, so that only what
// differs is sent, even to a proxy that comes back, or that changes to another replica.
package push

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/demand"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/ads/quarantine"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Engine holds the classes, and brings them to each new state of the mesh. Open and Update may be
// called from any goroutine.
type Engine struct {
	log *slog.Logger

	mu          sync.Mutex
	mesh        *mesh.Mesh // nil before the first state: proxies wait for it
	revision    string     // that of the mesh
	pushes      uint64     // how many there were, the one under way included
	sharedViews map[sharedViewKey]*sharedView
	classes     map[classKey]*class
	members     map[*served.Subscriber]*member // connected proxies
	caches      configCaches
	once        onlyOnce // equal resources share memory
	journal     *journal
	answers     *answers
	// turn counts what happens to the mesh and to proxies. As long as it stays the same, so do the
	// problems, and whom resources concern.
	turn       uint64
	audiences  *Audiences
	versions   *Versions
	statuses   *Statuses
	scopeMoves scopeMoves
	// scopedFrom is the number of rules from which a router's routes are sent host by host.
	scopedFrom int

	classCount prometheus.GaugeFunc
	proxyCount prometheus.GaugeFunc
	invalid    prometheus.Counter
	denials    *denials
	refusals   *refusals
	admit      Admission
	reporters  reporters
	watcher    Watcher
}

// member is one connected proxy.
type member struct {
	subscriber *served.Subscriber
	follower   Follower
	proxy      *mesh.Proxy // as it introduced itself
	class      *class      // nil before the first mesh
	// configured is the proxy with what the mesh says of it, and key is that of its class.
	configured *mesh.Proxy
	key        classKey
	// offered is the last snapshot that it was offered.
	offered *served.Snapshot
	// demand is what it has asked for; nil unless it is on demand.
	demand *demand.Asked
	// denied are the secrets that it asked for and was not given. Some may have come since.
	denied map[string]bool
	// refused are the listeners that it refuses.
	refused []quarantine.Refused
}

// New returns an engine that has no mesh yet.
func New(log *slog.Logger, metrics prometheus.Registerer) *Engine {
	e := &Engine{
		log: log, admit: Anyone, sharedViews: map[sharedViewKey]*sharedView{}, classes: map[classKey]*class{}, members: map[*served.Subscriber]*member{},
		caches: configCaches{in: map[conditions]*configCache{}}, scopedFrom: ScopedFrom,
		journal: newJournal(metrics), denials: newDenials(metrics), refusals: newRefusals(log, metrics), reporters: newReporters(log, metrics),
	}
	e.answers = newAnswers(e.journal, metrics)
	e.answers.refusing = e.refusing
	e.Watch(nobody{})
	e.audiences, e.versions, e.statuses = newAudiences(e), newVersions(), &Statuses{engine: e}
	gauge := func(name, help string, count func() int) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			e.mu.Lock()
			defer e.mu.Unlock()
			return float64(count())
		})
	}
	e.classCount = gauge("pgmesh_discovery_classes", "Sets of proxies that get the same.", func() int { return len(e.classes) })
	e.proxyCount = gauge("pgmesh_discovery_proxies", "Proxies that are connected.", func() int { return len(e.members) })
	e.invalid = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "pgmesh_discovery_invalid_total",
		Help: "Translated resources that were not sent because Envoy would refuse them; the last good state of each stays in force.",
	})
	metrics.MustRegister(e.classCount, e.proxyCount, e.invalid, gauge("pgmesh_discovery_listeners_refused",
		"Listeners that proxies refuse and do without, or go on with as they had them; the log and /problems have each.", e.refusedListeners))
	return e
}

// Open registers a proxy, by the node that introduces it. The subscriber that it returns is offered
// the proxy's snapshot at once if there is a mesh, and otherwise with the first one.
func (e *Engine) Open(ctx context.Context, node *corev3.Node, incremental bool) (*served.Subscriber, error) {
	proxy, node, err := e.introduced(ctx, node)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var s *served.Subscriber
	s = served.NewSubscriber(func() { e.leave(s) })
	e.turn++
	m := &member{subscriber: s, proxy: proxy, key: classKey{divided: divides(node, incremental)}}
	e.members[s] = m
	in := false
	defer func() {
		if !in { // the translation for it panicked: stop updating it
			e.quit(m)
			delete(e.members, s)
		}
	}()
	if e.mesh != nil {
		e.join(m)
		m.offered = m.given()
		s.Offer(e.asOfNow(m.offered))
	}
	m.follower = e.watcher.Joined(s, proxy.Namespace)
	s.Follower = m.follower
	in = true
	return s, nil
}

// leave forgets a proxy whose stream has ended.
func (e *Engine) leave(s *served.Subscriber) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.turn++
	m := e.members[s]
	e.quit(m)
	delete(e.members, s)
	m.follower.Left(s)
}

// Update brings every class to a new state of the mesh, to which a step has led.
func (e *Engine) Update(m *mesh.Mesh, step configstore.Step) {
	revision := strconv.FormatInt(m.Revision, 10)
	e.update(m, revision, step)
	e.reporters.between.report(revision, between(m)) // last, so that no proxy waits for it
}

// update holds the lock for the whole push. A proxy that connects meanwhile waits, and then gets
// the new mesh.
func (e *Engine) update(m *mesh.Mesh, revision string, step configstore.Step) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.turn++
	news := e.journal.begin(revision)
	before := e.mesh
	e.mesh, e.revision = m, revision
	e.pushes++
	configured := e.versions.note(step, e.pushes)
	e.tellUnusable(step)
	if before == nil || !e.sortsLike(before) {
		e.regroup()
	}
	if before != nil {
		e.watcher.Pushing(Begun{Number: e.pushes, After: before.Revision, Revision: m.Revision, At: time.Now(), Configured: configured})
	}
	offered := 0
	for _, x := range e.sharedViews {
		offered += x.push(e, news)
	}
	e.journal.end(offered)
	e.watcher.Pushed()
	e.caches.forget(e.sharedViews)
	e.reportClassProblems()
}

// push brings the shared view and its classes to the new mesh, and offers the result to their
// proxies at once: they are sent what is new while the next view is made. It returns how many it
// has something new for.
func (x *sharedView) push(e *Engine, news *served.News) (offered int) {
	x.update(e)
	for c := range x.classes {
		c.update(e)
		for m := range c.members {
			if m.offer(e, news) {
				offered++
			}
		}
	}
	return offered
}

// offer offers the proxy what its class has for it, and reports whether that is new to it. The news
// say which change it comes from; nil if from none.
func (m *member) offer(e *Engine, news *served.News) bool {
	given := m.given()
	if given == m.offered {
		return false
	}
	m.offered = given
	m.follower.Offered()
	m.subscriber.OfferNews(e.asOfNow(given), news)
	return true
}

// asOfNow returns the snapshot as one of the newest push, which may have changed nothing in it.
func (e *Engine) asOfNow(s *served.Snapshot) *served.Snapshot {
	if s.Revision == e.revision && s.Push == e.pushes {
		return s
	}
	return &served.Snapshot{Revision: e.revision, Push: e.pushes, Sets: s.Sets}
}

// translated records the work done since a moment, and logs what was left out because Envoy would
// refuse it.
func (e *Engine) translated(typeURL string, since time.Time, m made) {
	e.journal.translated(typeURL, since, m)
	for _, r := range m.refused {
		e.invalid.Inc()
		e.log.Error("Envoy would refuse what a resource of the mesh asks for, so proxies keep the last good state of it. "+
			"Correct the resource", "revision", e.revision, "error", r.err)
	}
}
