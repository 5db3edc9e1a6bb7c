// Package feed is the source that reads a store: a snapshot first, and then each committed batch.
package feed

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/feed"
	"github.com/pgmesh/pgmesh/store/secrets"
)

// Feed keeps a publisher at the newest revision of a store.
type Feed struct {
	// See is called with each resource that is read. It must not block, and may be set before Run.
	See func(*store.Resource)
	// Published is called with each batch once it is served, and when the feed began to work on it,
	// if it is not nil. It must not block, and may be set before Run.
	Published func(b *feed.Batch, began time.Time)

	revisions *feed.Feed
	publisher *publish.Publisher
	log       *slog.Logger
	source    publish.Source
	at        feed.Position // everything up to here was read
	keys      *seal.Keys    // open sealed secrets
	// pending is what was read and not published yet. It is complete at the revision through: of a
	// secret only the newest value is stored, which must not be published before the rest of its
	// revision.
	pending     publish.Changes
	through     store.Revision
	unpublished []read // what pending is of, if somebody is to know of it

	batches      prometheus.Counter
	undecodable  prometheus.Counter
	publishDelay prometheus.Histogram
}

// read is a batch that was read.
type read struct {
	batch feed.Batch
	began time.Time
}

// New returns a feed from a database to a publisher.
func New(revisions *feed.Feed, p *publish.Publisher, keys *seal.Keys, log *slog.Logger, metrics prometheus.Registerer) *Feed {
	f := &Feed{
		See: func(*store.Resource) {}, revisions: revisions, publisher: p, keys: keys, log: log,
		batches: prometheus.NewCounter(prometheus.CounterOpts{Name: "pgmesh_mcp_server_batches_total", Help: "Batches read from the store's feed."}),
		undecodable: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgmesh_mcp_server_undecodable_total",
			Help: "Resources read from the store that could not be decoded; the last good state of each stays in force.",
		}),
		publishDelay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "pgmesh_mcp_server_publish_delay_seconds",
			Help:    "Time from a transaction's number to its snapshot, by the clocks of database and server.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, 1, 5, 30, 300},
		}),
	}
	metrics.MustRegister(f.batches, f.undecodable, f.publishDelay)
	return f
}

// Run follows the store until the context ends. While the database is away it retries, and clients
// keep what they have.
func (f *Feed) Run(ctx context.Context) error {
	return retry.Loop{
		Pauses: retry.Pauses{First: 50 * time.Millisecond, Longest: 5 * time.Second}, Failed: f.failed,
	}.Forever(ctx, func(works func()) error {
		if err := f.load(ctx); err != nil {
			return err
		}
		works()
		return f.revisions.Follow(ctx, f.at, f.apply)
	})
}

func (f *Feed) failed(err error, _ time.Duration) {
	if !errors.Is(err, feed.ErrTooOld) { // the next snapshot mends that
		f.publisher.Lost(err)
	}
	f.log.Error("cannot read the store; clients keep what they have, and the server goes on trying", "error", err)
}

// Followed is called by the store when its connection is lost, with an error, or is back, with nil.
// A source without a connection is stale.
func (f *Feed) Followed(err error) {
	if err != nil {
		f.publisher.Lost(err)
		return
	}
	f.publisher.Stand(f.source)
}

// load publishes a complete snapshot of the store.
func (f *Feed) load(ctx context.Context) error {
	mesh, err := f.revisions.Installation(ctx)
	if err != nil {
		return err
	}
	f.publisher.Alive()
	f.source = publish.Source{Name: publish.Database, Mesh: mesh}
	f.publisher.Begin(f.source)
	all := publish.Content{Resources: map[*kinds.Kind][]*served.Resource{}, Kept: map[*kinds.Kind][]string{}, Secrets: true}
	resources := 0
	at, err := f.revisions.SnapshotWithSecrets(ctx, func(r *store.Resource) error {
		resources++
		f.publisher.Alive()
		f.See(r)
		k := r.Key.Kind
		if encoded := f.encode(r); encoded != nil && !f.keepLast(r) {
			all.Resources[k] = append(all.Resources[k], encoded)
		} else {
			all.Kept[k] = append(all.Kept[k], r.Key.FullName())
		}
		return nil
	}, func(s *secrets.Secret) error {
		if encoded := f.encodeSecret(s); encoded != nil {
			all.Resources[kinds.Secret] = append(all.Resources[kinds.Secret], encoded)
		} else {
			all.Kept[kinds.Secret] = append(all.Kept[kinds.Secret], s.Key().FullName())
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.at, f.pending, f.through, f.unpublished = at, publish.Changes{}, 0, nil
	f.publisher.Replace(all, publish.Position(at))
	debug.FreeOSMemory() // loading takes several times the memory that stays in use
	f.log.Info("loaded the store", "revision", at.Revision, "resources", resources)
	return nil
}

// apply publishes a batch, or keeps it pending until the revision of its newest secrets has come.
func (f *Feed) apply(b feed.Batch) error {
	if f.Published != nil {
		f.unpublished = append(f.unpublished, read{b, time.Now()})
	}
	c := publish.Changes{Upserts: map[*kinds.Kind][]*served.Resource{}, Removed: map[*kinds.Kind][]string{}, Committed: b.Time}
	for _, change := range b.Changes {
		k := change.Key.Kind
		if change.After == nil {
			c.Removed[k] = append(c.Removed[k], change.Key.FullName())
			continue
		}
		f.See(change.After)
		if encoded := f.encode(change.After); encoded != nil {
			c.Upserts[k] = append(c.Upserts[k], encoded)
		}
	}
	for _, change := range b.Secrets {
		f.addSecret(&c, change)
		f.through = max(f.through, change.Through)
	}
	f.pending.Add(c)
	f.batches.Inc()
	if f.at = b.Position(); b.Revision < f.through { // that revision is committed already, so it will come soon
		return nil
	}
	f.publisher.Apply(f.pending, publish.Position(f.at))
	f.pending = publish.Changes{}
	f.publishDelay.Observe(max(0, time.Since(b.Time).Seconds())) // the database's clock may be ahead
	for i := range f.unpublished {
		f.Published(&f.unpublished[i].batch, f.unpublished[i].began)
	}
	f.unpublished = nil
	return nil
}
