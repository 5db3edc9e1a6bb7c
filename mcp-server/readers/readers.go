// Package readers filters snapshots for each client of mcp-server: it shows what the client's
// scopes let it read and, of that, what the rows of mesh.readers for its identity show.
//
// Clients that are shown the same share one view, which is updated by what changed between
// snapshots. When the rows change, open streams move to other views, and are sent the difference.
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

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/store/identity/callers"
)

// warnInterval limits the warnings about clients that are turned away, because these may retry
// without end.
const warnInterval = time.Second

// Views are all views of a source.
type Views struct {
	source func() *served.Subscriber // with secrets
	plain  func() *served.Subscriber // without
	log    *slog.Logger

	mu       sync.Mutex
	rowsRead bool // whether the rows were read; nobody is shown anything before
	rows     []row
	hasRows  bool                 // whether there are rows, even if none could be parsed
	newest   *served.Snapshot     // nil before the first
	views    map[string]*view     // by the key of their filter
	members  map[*member]struct{} // all open streams

	denied        prometheus.Counter
	open          prometheus.Gauge
	warnSometimes rate.Sometimes
}

// member is a client that uses a view.
type member struct {
	who  *caller.Caller
	news *served.Subscriber
	view *view // nil until the rows are read
}

// New returns the views of a source, which offers snapshots with secrets and without.
func New(source, plain func() *served.Subscriber, log *slog.Logger, metrics prometheus.Registerer) *Views {
	v := &Views{
		source: source, plain: plain, log: log, views: map[string]*view{}, members: map[*member]struct{}{},
		denied: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgmesh_mcp_server_readers_denied_total", Help: "Clients that were turned away because no row of mesh.readers is for them.",
		}),
		open:          prometheus.NewGauge(prometheus.GaugeOpts{Name: "pgmesh_mcp_server_reader_views", Help: "Different parts of the mesh that clients are shown."}),
		warnSometimes: rate.Sometimes{First: 20, Interval: warnInterval},
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

func (v *Views) advance(newest *served.Snapshot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.newest = newest
	for _, w := range v.views {
		if len(w.members) == 0 { // join updates it when somebody comes
			continue
		}
		shown := w.snapshot(newest)
		for m := range w.members {
			m.news.Offer(shown)
		}
	}
}

// Subscribe returns the snapshots for the caller. Its error carries a gRPC status.
func (v *Views) Subscribe(ctx context.Context) (*served.Subscriber, error) {
	who := caller.From(ctx)
	if f := (filter{scopes: readScopes(who), secrets: who.SecretScopes()}); !v.usesRows(who) && f.showsEverything() {
		if len(f.secrets) > 0 {
			return v.source(), nil
		}
		return v.plain(), nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	m := &member{who: who}
	m.news = served.NewSubscriber(func() { v.leave(m) })
	if v.rowsRead || !v.usesRows(who) {
		f, err := v.filterFor(who)
		if err != nil {
			return nil, err
		}
		v.join(m, f)
	}
	v.members[m] = struct{}{}
	return m.news, nil
}

// usesRows reports whether the rows restrict a caller. They do not restrict tokens, whose scopes
// say what they show, nor the local caller without TLS, who may do everything.
func (v *Views) usesRows(who *caller.Caller) bool {
	return !who.Bearer() && who.Identity() != caller.Local
}

// filterFor returns the filter for a caller.
func (v *Views) filterFor(who *caller.Caller) (filter, error) {
	f := filter{scopes: readScopes(who), secrets: who.SecretScopes(), restricted: v.hasRows && v.usesRows(who)}
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
	v.warnSometimes.Do(func() { v.log.Warn("turned a client away: no row of mesh.readers is for it", "caller", who.Identity()) })
	return f, status.Errorf(codes.PermissionDenied, "%s is shown nothing here: no row of mesh.readers is for it", who.Identity())
}

// readScopes returns the caller's scopes for resources.
func readScopes(who *caller.Caller) []caller.Scope {
	return slices.DeleteFunc(who.Scopes(), func(s caller.Scope) bool { return s.Verb == caller.Secrets })
}

// join adds a member to the view of a filter.
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

// Show sets the rows, for open streams too.
func (v *Views) Show(rows []callers.Reader) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rowsRead, v.hasRows, v.rows = true, len(rows) > 0, nil
	for _, r := range rows {
		parsed, err := parse(r)
		if err != nil { // without the row, its reader sees less
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

// move moves a member to the view that it is to have now.
func (v *Views) move(m *member) {
	if m.view != nil && !v.usesRows(m.who) {
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
