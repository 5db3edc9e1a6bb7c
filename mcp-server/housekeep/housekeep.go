// Package housekeep does what a database cannot do by itself: it reverts changes that nobody
// confirmed in time, adopts resources that came around the triggers, and prunes old history.
//
// Every server does so. The database ensures that each revision is reverted once, whichever server
// comes first, and that a server which dies half-way has changed nothing.
package housekeep

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/housekeeping"
	"github.com/pgmesh/pgmesh/store/identity/members"
)

// Options are a Keeper's intervals. The zero value is right for production.
type Options struct {
	PollInterval  time.Duration // how often to look for work without news; 30 s if 0
	PruneInterval time.Duration // how often to prune history; 1 min if 0
	AdoptInterval time.Duration // how often to look for resources that came around the triggers, while there may be some; 30 s if 0
}

const (
	// minPause keeps frequent revisions from causing a round of work each.
	minPause = 200 * time.Millisecond

	// retryInterval is how soon to try again what failed or was locked by others.
	retryInterval = time.Second

	// Pruning a batch takes some ten milliseconds. A round prunes no more batches than this, so as
	// not to delay a deadline.
	pruneBatchSize  = 1000
	maxPruneBatches = 20
)

// Keeper does the housekeeping of one store.
type Keeper struct {
	due       *housekeeping.Store
	members   *members.Store
	news      <-chan struct{}
	log       *slog.Logger
	options   Options
	nextPrune time.Time // when to prune again
	nextAdopt time.Time // when to look again for resources that came around the triggers
	adopter   housekeeping.Adopter

	oldest    prometheus.Gauge
	waiting   prometheus.Gauge
	pruned    prometheus.Counter
	forgotten prometheus.Counter
	reverted  *prometheus.CounterVec
	adopted   prometheus.Counter
}

// New returns a keeper that also looks for work when news has an element: when revisions were
// committed.
func New(s *store.Store, news <-chan struct{}, log *slog.Logger, metrics prometheus.Registerer, o Options) *Keeper {
	if o.PollInterval == 0 {
		o.PollInterval = 30 * time.Second
	}
	if o.PruneInterval == 0 {
		o.PruneInterval = time.Minute
	}
	if o.AdoptInterval == 0 {
		o.AdoptInterval = 30 * time.Second
	}
	due := housekeeping.New(s)
	k := &Keeper{
		due: due, members: members.New(s), news: news, log: log, options: o, adopter: housekeeping.Adopter{Store: due},
		oldest:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "pgmesh_mcp_server_oldest_revision", Help: "The oldest revision that the history has."}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pgmesh_mcp_server_confirmations_waiting", Help: "Revisions that wait for a confirmation."}),
		pruned:  prometheus.NewCounter(prometheus.CounterOpts{Name: "pgmesh_mcp_server_pruned_revisions_total", Help: "Revisions whose history this server has pruned."}),
		forgotten: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgmesh_mcp_server_pruned_certificates_total", Help: "Records of certificates and join tokens that this server has forgotten.",
		}),
		reverted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_mcp_server_unconfirmed_revisions_total",
			Help: "Revisions that nobody confirmed in time and this server took back: whole (reverted), or not all of it (conflict).",
		}, []string{"outcome"}),
		adopted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgmesh_mcp_server_adopted_resources_total",
			Help: "Resources that came, changed or went around the triggers of the database, as out of a dump of their table, and that this server has made a revision of.",
		}),
	}
	metrics.MustRegister(k.oldest, k.waiting, k.pruned, k.forgotten, k.reverted, k.adopted)
	return k
}

// Run works until the context ends, and retries while the database is away.
func (k *Keeper) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		next, err := k.runOnce(ctx)
		if err != nil && ctx.Err() == nil {
			next = retryInterval
			k.adopter.Forget()
			if !store.Temporary(err) { // the feed logs that the database is away
				k.log.Error("cannot keep house in the database; the server goes on trying", "error", err)
				next = k.options.PollInterval
			}
		}
		k.pause(ctx, next)
	}
	return ctx.Err()
}

// pause waits for d, or for minPause and then for news.
func (k *Keeper) pause(ctx context.Context, d time.Duration) {
	least := min(minPause, d)
	select {
	case <-time.After(least):
	case <-ctx.Done():
		return
	}
	select {
	case <-time.After(d - least):
	case <-k.news:
	case <-ctx.Done():
	}
}

// runOnce does what is due now, and returns how long to wait for more.
func (k *Keeper) runOnce(ctx context.Context) (time.Duration, error) {
	chores, err := k.due.Chores(ctx)
	if err != nil {
		return 0, err
	}
	k.oldest.Set(float64(chores.Oldest))
	k.waiting.Set(float64(chores.Waiting))
	if chores.Standby {
		return k.options.PollInterval, nil
	}
	if chores.Waiting > 0 && chores.Deadline <= 0 {
		reverted, err := k.revert(ctx)
		if err != nil || reverted {
			return 0, err
		}
		chores.Deadline = retryInterval // it is being confirmed, or another server reverts it
	}
	if more, err := k.pruneSome(ctx); err != nil || more {
		return 0, err
	}
	if err := k.adoptSome(ctx, chores); err != nil {
		return 0, err
	}
	if chores.Waiting > 0 {
		return min(k.options.PollInterval, chores.Deadline, time.Until(k.nextPrune)), nil
	}
	return min(k.options.PollInterval, time.Until(k.nextPrune)), nil
}

// revert reverts overdue revisions, and reports whether there were any.
func (k *Keeper) revert(ctx context.Context) (some bool, err error) {
	for {
		r, err := k.due.RevertOverdue(ctx)
		if errors.Is(err, store.ErrConflict) { // somebody writes the same resources
			return some, nil
		}
		if err != nil || r == nil {
			return some, err
		}
		some = true
		if r.Conflict {
			k.reverted.WithLabelValues("conflict").Inc()
			k.log.Warn("a revision was not confirmed in time and could not be reverted whole: see mesh.conflicts", "revision", r.Revision, "reverted_by", r.By)
			continue
		}
		k.reverted.WithLabelValues("reverted").Inc()
		k.log.Info("reverted a revision that was not confirmed in time", "revision", r.Revision, "reverted_by", r.By)
	}
}

// adoptSome adopts resources that came around the triggers, if there may be some and the interval
// has passed.
func (k *Keeper) adoptSome(ctx context.Context, chores housekeeping.Chores) error {
	if !k.adopter.Missed(chores) || time.Now().Before(k.nextAdopt) {
		return nil
	}
	k.nextAdopt = time.Now().Add(k.options.AdoptInterval)
	adopted, err := k.adopter.Adopt(ctx, chores)
	if errors.Is(err, store.ErrConflict) { // somebody is writing
		return nil
	}
	if err != nil {
		return err
	}
	if adopted > 0 {
		k.adopted.Add(float64(adopted))
		k.log.Warn("adopted resources that came, changed or went around the triggers of the database, as a revision of their own: mesh.history has them, mesh.unsound what is wrong with them",
			"resources", adopted, "author", "mesh.adopt")
	}
	return nil
}

// pruneSome prunes if it is time, and reports whether there may be more to prune.
func (k *Keeper) pruneSome(ctx context.Context) (more bool, err error) {
	if time.Now().Before(k.nextPrune) {
		return false, nil
	}
	for _, p := range []struct {
		batch  func(context.Context, int) (int64, error)
		pruned prometheus.Counter
	}{{k.due.PruneExpired, k.pruned}, {k.members.PruneCertificates, k.forgotten}} {
		if more, err := pruneBatch(ctx, p.batch, p.pruned); err != nil || more {
			return more, err
		}
	}
	k.nextPrune = time.Now().Add(k.options.PruneInterval)
	return false, nil
}

// pruneBatch prunes up to maxPruneBatches batches, and reports whether there may be more.
func pruneBatch(ctx context.Context, batch func(context.Context, int) (int64, error), pruned prometheus.Counter) (more bool, err error) {
	for range maxPruneBatches {
		n, err := batch(ctx, pruneBatchSize)
		if err != nil || n == 0 {
			return false, err
		}
		pruned.Add(float64(n))
	}
	return true, nil
}
