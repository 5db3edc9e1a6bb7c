// Package readers shows each client of mcp-server its part of the mesh: what its scopes let it read and, of that, what the rows of
// mesh.readers for its identity show.
//
// Those who are shown the same share one view, which is brought from one snapshot to the next by what has changed between them. When
// the rows change, streams that are open are moved to other views, and are sent the difference.
package readers

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/store"
)

// logEvery bounds how often those are named who are turned away, who may try again and again.
const logEvery = time.Second

// Views are all views of a source.
type Views struct {
	source func() *ads.Subscriber // with secrets
	plain  func() *ads.Subscriber // without
	log    *slog.Logger

	mu      sync.Mutex
	known   bool // whether the rows were read: until then nobody is shown anything
	rows    []row
	any     bool // whether there are rows, be they such as this program understands or not
	newest  *ads.Snapshot
	views   map[string]*view
	members map[*member]struct{}

	denied prometheus.Counter
	open   prometheus.Gauge
	tell   rate.Sometimes
}

// member is a client that a view is for.
type member struct {
	who  *caller.Caller
	news *ads.Subscriber
	view *view // nil until the rows are known
}

// New returns the views of what a source offers with secrets, and without.
func New(source, plain func() *ads.Subscriber, log *slog.Logger, metrics prometheus.Registerer) *Views {
	v := &Views{
		source: source, plain: plain, log: log, views: map[string]*view{}, members: map[*member]struct{}{},
		denied: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "readers_denied_total", Help: "Clients that were turned away because no row of mesh.readers is for them.",
		}),
		open: prometheus.NewGauge(prometheus.GaugeOpts{Name: "reader_views", Help: "Different parts of the mesh that clients are shown."}),
		tell: rate.Sometimes{First: 20, Interval: logEvery},
	}
	metrics.MustRegister(v.denied, v.open)
	return v
}

// Run keeps the views at the newest snapshot until the context ends.
func (v *Views) Run(ctx context.Context) error {
	news := v.source()
	defer news.Close()
	for {
		select {
		case <-news.Changed():
			v.advance(news.Snapshot())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (v *Views) advance(newest *ads.Snapshot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.newest = newest
	for _, w := range v.views {
		if len(w.members) == 0 { // it catches up when somebody comes
			continue
		}
		shown := w.snapshot(newest)
		for m := range w.members {
			m.news.Offer(shown)
		}
	}
}

// Subscribe returns the snapshots for the caller of a context. Its error carries a gRPC status.
func (v *Views) Subscribe(ctx context.Context) (*ads.Subscriber, error) {
	who := caller.From(ctx)
	if f := (filter{scopes: readScopes(who), secrets: who.SecretScopes()}); !v.rowsAreFor(who) && f.everything() {
		if len(f.secrets) > 0 {
			return v.source(), nil
		}
		return v.plain(), nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	m := &member{who: who}
	m.news = ads.NewSubscriber(func() { v.leave(m) })
	if v.known || !v.rowsAreFor(who) {
		f, err := v.filterFor(who)
		if err != nil {
			return nil, err
		}
		v.join(m, f)
	}
	v.members[m] = struct{}{}
	return m.news, nil
}

// rowsAreFor tells whether the rows decide what somebody is shown. The scopes of a token say that by themselves, and who may do
// everything without TLS is shown everything.
func (v *Views) rowsAreFor(who *caller.Caller) bool {
	return !who.Bearer() && who.Identity() != caller.Local
}

// filterFor is what somebody is shown.
func (v *Views) filterFor(who *caller.Caller) (filter, error) {
	f := filter{scopes: readScopes(who), secrets: who.SecretScopes(), restricted: v.any && v.rowsAreFor(who)}
	if len(f.scopes) == 0 {
		return f, status.Error(codes.PermissionDenied, (&caller.DeniedError{Identity: who.Identity(), What: "read"}).Error())
	}
	if !f.restricted {
		return f, nil
	}
	for _, r := range v.rows {
		if r.identity.Matches(who.Identity()) {
			f.rows = append(f.rows, r)
		}
	}
	if len(f.rows) > 0 {
		return f, nil
	}
	v.denied.Inc()
	v.tell.Do(func() { v.log.Warn("turned a client away: no row of mesh.readers is for it", "caller", who.Identity()) })
	return f, status.Errorf(codes.PermissionDenied, "%s is shown nothing here: no row of mesh.readers is for it", who.Identity())
}

// readScopes are those of somebody's scopes that are about resources.
func readScopes(who *caller.Caller) []caller.Scope {
	return slices.DeleteFunc(who.Scopes(), func(s caller.Scope) bool { return s.Verb == caller.Secrets })
}

// join puts a member into the view of a filter.
func (v *Views) join(m *member, f filter) {
	key := f.key()
	w := v.views[key]
	if w == nil {
		w = newView(f)
		v.views[key] = w
		v.open.Set(float64(len(v.views)))
	}
	m.view = w
	w.members[m] = struct{}{}
	if v.newest != nil {
		m.news.Offer(w.snapshot(v.newest))
	}
}

func (v *Views) leave(m *member) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.members, m)
	if m.view != nil {
		delete(m.view.members, m)
	}
}

// Show makes the rows those that decide from now on, for streams that are open too.
func (v *Views) Show(rows []store.Reader) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known, v.any, v.rows = true, len(rows) > 0, nil
	for _, r := range rows {
		parsed, err := parse(r)
		if err != nil { // it would show less than was meant, and nothing to others
			v.log.Error("left out a row of mesh.readers", "identity", r.Identity, "error", err)
			continue
		}
		v.rows = append(v.rows, parsed)
	}
	for m := range v.members {
		v.move(m)
	}
	for key, w := range v.views {
		if len(w.members) == 0 {
			delete(v.views, key)
		}
	}
	v.open.Set(float64(len(v.views)))
}

// move puts a member into the view that it is to have now.
func (v *Views) move(m *member) {
	if m.view != nil && !v.rowsAreFor(m.who) {
		return
	}
	f, err := v.filterFor(m.who)
	if err == nil && m.view != nil && m.view.filter.key() == f.key() {
		return
	}
	if m.view != nil {
		delete(m.view.members, m)
		m.view = nil
	}
	if err == nil {
		v.join(m, f)
		return
	}
	if m.who.End(err) == nil {
		v.log.Info("ended the stream of a client that is shown nothing any more", "caller", m.who.Identity())
	}
}
