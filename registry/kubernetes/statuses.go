package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
)

// statuses compares what became of resources with what the cluster's objects say of it, as its watches
// tell. What differs is due to be written, so whoever changes our conditions is corrected, and a write
// of our own, which comes back, changes nothing. A nil one does nothing.
type statuses struct {
	log *slog.Logger

	mu      sync.Mutex
	kinds   map[*kinds.Kind]*statusKind
	objects map[kinds.Key]*object
	summing []*object     // due, and says how others stand, which is what people look at: comes before
	due     []*object     // the others. Of both lists the newest is last, and is written first
	wake    chan struct{} // something is due
	writing bool          // it is this server that writes
	counts  registry.Writes
}

// statusKind is a kind as the cluster has it.
type statusKind struct {
	version  string
	writable bool      // its objects have a status of the shape that we write
	reason   string    // why the cluster takes none, as it was told
	after    time.Time // when it is asked again
	pauses   *retry.Backoff
}

// object is one of the cluster.
type object struct {
	key        kinds.Key
	generation int64
	version    string
	there      statusObject
	resource   *kinds.Resource // that it is, or was at last
	bad        error           // why it is none; nil if it is

	wanted  []registry.Condition
	own     json.RawMessage // that is wanted, of a kind with a status of its own shape
	about   *kinds.Resource // which state that is about
	pending bool            // something else will be said of it in a moment,
	settles time.Time       // or else this is written then

	gone     bool
	queued   bool
	since    time.Time // it is due
	after    time.Time // when it may be written
	attempts int       // that were in vain
	last     string    // what was written last: by the digest of what was wanted,
	answer   string    // what the cluster has made of it,
	wrote    time.Time // when,
	repeats  int       // and how often it had to be written again
}

func newStatuses(log *slog.Logger) *statuses {
	return &statuses{log: log, kinds: map[*kinds.Kind]*statusKind{}, objects: map[kinds.Key]*object{}, wake: make(chan struct{}, 1)}
}

// hasStatus reports whether we write statuses of a kind: a list of conditions, or one of the shape of
// the Gateway API.
func hasStatus(kind *kinds.Kind) bool {
	return strings.HasSuffix(kind.Group, ".istio.io") || hasOwnShape(kind)
}

// know notes in which version the cluster has a kind, and whether that has a status by itself.
func (s *statuses) know(kind *kinds.Kind, version string, subresource bool) {
	if s == nil || !hasStatus(kind) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds[kind]
	if k == nil {
		k = &statusKind{writable: subresource, pauses: retry.Pauses{First: time.Second, Longest: 30 * time.Second}.Backoff()}
		s.kinds[kind] = k
		if !subresource {
			s.log.Warn("objects of a kind have no status in the cluster, so what becomes of them is not written there: its definition lacks subresources.status", "kind", kindName(kind))
		}
	}
	could := k.writable
	k.version, k.writable = version, subresource
	if could || !subresource {
		return
	}
	for _, o := range s.objects { // its definition was corrected
		if o.key.Kind == kind {
			s.queue(o)
		}
	}
}

// saw notes an object as the cluster has it, and the resource that it is, or why it is none.
func (s *statuses) saw(key kinds.Key, seen *configObject, r *kinds.Resource, bad error) {
	if s == nil || !hasStatus(key.Kind) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[key]
	if o == nil {
		o = &object{key: key}
		s.objects[key] = o
	}
	o.generation, o.version, o.there = seen.Metadata.Generation, seen.Metadata.ResourceVersion, seen.Status
	if o.bad = bad; bad == nil {
		o.resource = r
	}
	s.queue(o)
}

// renew takes what an object is made into now, which has not changed itself.
func (s *statuses) renew(key kinds.Key, r *kinds.Resource) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[key]; o != nil && o.bad == nil {
		o.resource = r
		s.queue(o)
	}
}

func (s *statuses) forget(key kinds.Key) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[key]; o != nil {
		o.gone = true
		delete(s.objects, key)
	}
}

// want takes what became of all resources.
func (s *statuses) want(all []registry.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, status := range all {
		if o := s.objects[status.Resource.Key()]; o != nil && (o.about != status.Resource || !slices.Equal(o.wanted, status.Conditions) || !bytes.Equal(o.own, status.Own)) {
			o.settle(&status, time.Now())
			o.wanted, o.own, o.about = status.Conditions, status.Own, status.Resource
			s.queue(o)
		}
	}
}

// settleTime is how long a status waits that will soon be another, so that what comes of it is written
// alone: that is one write and not two where proxies keep up, and one a second where they do not.
const settleTime = time.Second

// settle decides how long a status waits.
func (o *object) settle(status *registry.Status, now time.Time) {
	pending := status.Pending()
	if pending && (!o.pending || o.about != status.Resource) {
		o.settles = now.Add(settleTime)
	}
	o.pending = pending
}

// ready is when an object may be written. The lock is held.
func (s *statuses) ready(o *object) time.Time {
	at := o.after
	if o.pending && o.bad == nil && o.settles.After(at) {
		at = o.settles
	}
	if kind := s.kinds[o.key.Kind]; kind != nil && kind.after.After(at) {
		at = kind.after
	}
	return at
}

// queue has an object looked at, if its status differs. The lock is held.
func (s *statuses) queue(o *object) {
	if kind := s.kinds[o.key.Kind]; !s.writing || kind == nil || !kind.writable {
		return
	}
	if o.queued { // and may have to wait no more
		s.rouse()
		return
	}
	if _, _, differs := o.compare(time.Now()); !differs {
		o.since = time.Time{}
		return
	}
	if o.queued = true; o.since.IsZero() {
		o.since = time.Now()
	}
	list := s.listOf(o)
	*list = append(*list, o)
	s.rouse()
}

// listOf is the list that an object waits in. Of many routes at once their Gateway would be written last.
func (s *statuses) listOf(o *object) *[]*object {
	if kind := o.key.Kind; hasOwnShape(kind) && (kind.Name == "Gateway" || kind.Name == "ListenerSet") {
		return &s.summing
	}
	return &s.due
}

// rouse has the writer look what is due.
func (s *statuses) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// compare returns the status that the object is to have, and a digest of what we want. It reports
// whether that is to be written. Nothing is, until it is known what became of the state that is there.
// What the cluster has made of the same before is as good as it gets.
func (o *object) compare(now time.Time) (body map[string]any, digest string, differs bool) {
	if hasOwnShape(o.key.Kind) {
		body, digest, differs = o.compareShape(now)
	} else {
		body, digest, differs = o.compareConditions(now)
	}
	return body, digest, differs && (digest != o.last || o.answer != o.there.text())
}

// compareShape compares a status of the shape of the Gateway API.
func (o *object) compareShape(now time.Time) (body map[string]any, digest string, differs bool) {
	var want statusObject
	if o.bad != nil || o.about == nil || o.about != o.resource || o.own == nil || json.Unmarshal(o.own, &want) != nil {
		return nil, "", false
	}
	body, differs = shaped(o.there, want, o.generation, now)
	return body, fmt.Sprint(o.generation, string(o.own)), differs
}

// compareConditions compares a status that is a list of conditions.
func (o *object) compareConditions(now time.Time) (body map[string]any, digest string, differs bool) {
	said := o.wanted
	switch {
	case o.bad != nil:
		said = registry.Unusable(o.bad.Error())
	case o.about == nil || o.about != o.resource:
		return nil, "", false
	}
	want := asOf(said, o.generation)
	all, differs := merged(o.there.Conditions, want, now)
	return map[string]any{"conditions": all}, fmt.Sprint(want), differs
}

// next takes the newest object that may be written now, or says when one may be.
func (s *statuses) next(now time.Time) (o *object, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range []*[]*object{&s.summing, &s.due} {
		for i, waiting := range slices.Backward(*list) {
			ready := s.ready(waiting)
			if !ready.After(now) {
				*list = slices.Delete(*list, i, i+1)
				return waiting, time.Time{}
			}
			if at.IsZero() || ready.Before(at) {
				at = ready
			}
		}
	}
	return nil, at
}

// begin has this server write, and end has it write no more.
func (s *statuses) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = true
	for _, o := range s.objects {
		s.queue(o)
	}
}

func (s *statuses) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing, s.summing, s.due = false, nil, nil
	for _, o := range s.objects {
		o.wanted, o.own, o.about, o.pending, o.queued, o.since = nil, nil, nil, false, false, time.Time{}
	}
}

// writes says how far writing has come.
func (s *statuses) writes() registry.Writes {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.counts
	for _, o := range slices.Concat(s.summing, s.due) {
		if o.gone {
			continue
		}
		if w.Waiting++; w.Since.IsZero() || o.since.Before(w.Since) {
			w.Since = o.since
		}
	}
	return w
}
