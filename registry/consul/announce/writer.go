package announce

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/pgmesh/pgmesh/registry/announce"
)

// writer keeps the catalog equal to what is wanted, while the lock is held.
type writer struct {
	*Announcer
	*lock

	mesh    string
	reports announce.Reports
	limiter *rate.Limiter

	there   *there
	plan    *plan
	refused refused
}

func newWriter(a *Announcer, l *lock, mesh string, reports announce.Reports) *writer {
	return &writer{
		Announcer: a, lock: l, mesh: mesh, reports: reports, limiter: rate.NewLimiter(rate.Limit(a.rate), max(a.rate, mostChanges)),
		plan: &plan{settings: a.settings}, refused: refused{},
	}
}

// again is how often it is looked whether somebody else has changed what is announced, and tried
// again what Consul has refused.
const again = 30 * time.Second

// write writes until it is no longer known what is wanted, or the lock may be lost.
func (w *writer) write(ctx context.Context, wanted *announce.Wanted) error {
	ticker := time.NewTicker(again)
	defer ticker.Stop()
	for {
		now, changed := wanted.Now()
		if now == nil || now.Mesh != w.mesh {
			return errUnknown
		}
		if err := w.bring(ctx, now, changed); err != nil {
			return err
		}
		w.reports.Writes(true, w.there.many())
		select {
		case <-changed:
		case <-ticker.C:
			w.there, w.refused = nil, refused{}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errUnknown ends a term: another server may know what is wanted.
var errUnknown = errors.New("this server does not know what the mesh has now; what was announced stays")

// bring makes the changes that lead to what is wanted, until something else is.
func (w *writer) bring(ctx context.Context, now *announce.Services, changed <-chan struct{}) (err error) {
	if w.there == nil {
		if w.there, err = w.look(ctx); err != nil {
			return err
		}
	}
	before := w.plan
	w.plan = before.next(now)
	maps.DeleteFunc(w.refused, func(resource string, _ error) bool { return before.services[resource] != w.plan.services[resource] })
	w.tellBad()
	for left := w.changes(); len(left) > 0; {
		some := left[:min(len(left), mostChanges)]
		if err := w.make(ctx, some); err != nil {
			wrong, is := errors.AsType[refused](err)
			if !is {
				return err
			}
			maps.Copy(w.refused, wrong)
			w.tellBad()
			left = slices.DeleteFunc(left, func(c change) bool { return w.refused[c.resource] != nil })
			continue
		}
		left = left[len(some):]
		select {
		case <-changed:
			return nil
		default:
		}
	}
	return nil
}

func (w *writer) make(ctx context.Context, some []change) error {
	if err := w.limiter.WaitN(ctx, len(some)); err != nil {
		return err
	}
	if err := w.send(ctx, some); err != nil {
		return err
	}
	for _, c := range some {
		w.there.took(c)
	}
	w.reports.Wrote(len(some))
	return nil
}

func (w *writer) tellBad() {
	all := maps.Clone(w.plan.wrong)
	maps.Copy(all, w.refused)
	w.reports.Bad(all)
}

// changes are what differs between the catalog and the plan. What people use comes before what is
// new. A service that cannot be announced as it is now stays as it was.
func (w *writer) changes() []change {
	var known, fresh, gone []change
	for resource, p := range w.plan.services {
		if w.refused[resource] != nil {
			continue
		}
		has := w.there.ours[resource]
		for id, i := range p.all {
			switch before := has[id]; {
			case before == nil:
				fresh = append(fresh, change{resource: resource, instance: i})
			case !before.equal(i):
				known = append(known, change{resource: resource, instance: i})
			}
		}
	}
	for resource, has := range w.there.ours {
		if w.plan.wrong[resource] != nil && !w.plan.rivals[resource] || w.refused[resource] != nil {
			continue
		}
		for id, i := range has {
			if p := w.plan.services[resource]; p == nil || p.all[id] == nil {
				gone = append(gone, change{resource: resource, instance: i, gone: true})
			}
		}
	}
	return slices.Concat(known, fresh, gone)
}
