// Package publish turns the store's feed into the snapshots that MCP clients are served from.
//
// A batch of the feed becomes one snapshot, and the snapshot ends with the mark of its revision, so that a client that asks for
// the mark never sees half a transaction. What a batch does not touch is shared with the snapshot before.
package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
	"github.com/pgmesh/pgmesh/store"
)

// Publisher keeps a topic at the newest revision of a store.
type Publisher struct {
	store *store.Store
	log   *slog.Logger
	topic ads.Topic

	sets   map[*kinds.Kind]*ads.Set
	at     store.Position
	loaded atomic.Bool

	published    prometheus.Gauge
	batches      prometheus.Counter
	undecodable  prometheus.Counter
	publishDelay prometheus.Histogram
}

// New returns a publisher that has nothing yet.
func New(s *store.Store, log *slog.Logger, metrics prometheus.Registerer) *Publisher {
	p := &Publisher{
		store: s, log: log, sets: map[*kinds.Kind]*ads.Set{},
		published: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pgmesh_mcp_server_revision", Help: "The revision that clients are served."}),
		batches:   prometheus.NewCounter(prometheus.CounterOpts{Name: "pgmesh_mcp_server_batches_total", Help: "Batches read from the store's feed."}),
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
	metrics.MustRegister(p.published, p.batches, p.undecodable, p.publishDelay)
	return p
}

// Subscribe returns the snapshots for one client.
func (p *Publisher) Subscribe() *ads.Subscriber { return p.topic.Subscribe() }

// Served returns when clients are served a revision, or a later one.
func (p *Publisher) Served(ctx context.Context, r store.Revision) error {
	news := p.topic.Subscribe()
	defer news.Close()
	for {
		if snap := news.Snapshot(); snap != nil {
			if published, err := strconv.ParseInt(snap.Revision, 10, 64); err != nil || published >= r {
				return err
			}
		}
		select {
		case <-news.Changed():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Ready tells what is missing before clients can be answered.
func (p *Publisher) Ready() error {
	if p.loaded.Load() {
		return nil
	}
	if err := p.store.Status().Err; err != nil {
		return fmt.Errorf("the first snapshot is not loaded: %w", err)
	}
	return errors.New("the first snapshot is not loaded yet")
}

// Run follows the store until the context ends. While the database is away it serves what it has and goes on trying.
func (p *Publisher) Run(ctx context.Context) error {
	retry := &backoff.ExponentialBackOff{
		InitialInterval: 50 * time.Millisecond, MaxInterval: 5 * time.Second, Multiplier: 1.6, RandomizationFactor: 0.5,
	}
	for ctx.Err() == nil {
		err := p.load(ctx)
		if err == nil {
			retry.Reset()
			err = p.store.Follow(ctx, p.at, p.apply)
		}
		if ctx.Err() != nil {
			break
		}
		p.log.Error("cannot read the store; clients keep what they have, and the server goes on trying", "error", err)
		select {
		case <-time.After(retry.NextBackOff()):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// load brings the sets to a whole snapshot of the store. What is the same as before stays the same, so that clients are only
// sent what differs.
func (p *Publisher) load(ctx context.Context) error {
	upserts, present := map[*kinds.Kind][]*ads.Resource{}, map[kinds.Key]bool{}
	at, err := p.store.Snapshot(ctx, func(r *store.Resource) error {
		present[r.Key] = true
		if encoded := p.encode(r); encoded != nil && !p.keeps(r) {
			upserts[r.Key.Kind] = append(upserts[r.Key.Kind], encoded)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, k := range kinds.All() {
		p.sets[k] = p.sets[k].With(upserts[k], gone(p.sets[k], k, present))
	}
	p.publish(at)
	p.log.Info("loaded the store", "revision", at.Revision, "resources", len(present))
	return nil
}

// keeps tells whether clients keep the version of a resource that they have: the stored one was checked by nobody, and breaks rules. If they
// have none, what can be decoded is better than nothing: it may be older than the rules, and was in force until this server started.
func (p *Publisher) keeps(r *store.Resource) bool {
	if !r.Unchecked {
		return false
	}
	violations := r.Key.Kind.Check(r.Spec, kinds.Meta{
		Name: r.Key.Name, Namespace: r.Key.Namespace, Labels: r.Labels, Annotations: r.Annotations,
	})
	if len(violations) == 0 {
		return false
	}
	kept := p.sets[r.Key.Kind].Get(r.Key.FullName()) != nil
	p.log.Error("a stored resource breaks rules and was checked by nobody: see mesh.unsound. Correct or delete it",
		"resource", r.Key.String(), "revision", r.Revision, "error", kinds.Errors(violations), "kept", kept)
	return kept
}

// gone lists the names of a set that a snapshot of the store does not have.
func gone(set *ads.Set, kind *kinds.Kind, present map[kinds.Key]bool) []string {
	there := make(map[string]bool, set.Len())
	for key := range present {
		if key.Kind == kind {
			there[key.FullName()] = true
		}
	}
	var names []string
	for r := range set.All() {
		if !there[r.Name] {
			names = append(names, r.Name)
		}
	}
	return names
}

func (p *Publisher) apply(b store.Batch) error {
	upserts, removed := map[*kinds.Kind][]*ads.Resource{}, map[*kinds.Kind][]string{}
	touched := map[*kinds.Kind]bool{}
	for _, c := range b.Changes {
		touched[c.Key.Kind] = true
		if c.After == nil {
			removed[c.Key.Kind] = append(removed[c.Key.Kind], c.Key.FullName())
		} else if encoded := p.encode(c.After); encoded != nil {
			upserts[c.Key.Kind] = append(upserts[c.Key.Kind], encoded)
		}
	}
	for k := range touched {
		p.sets[k] = p.sets[k].With(upserts[k], removed[k])
	}
	p.publish(b.Position())
	p.batches.Inc()
	p.publishDelay.Observe(time.Since(b.Time).Seconds())
	return nil
}

// encode returns a resource as clients are sent it, or nil if it cannot be decoded: then clients keep the last one that could.
func (p *Publisher) encode(r *store.Resource) *ads.Resource {
	encoded, err := Encode(r)
	if err != nil {
		p.undecodable.Inc()
		p.log.Error("a stored resource cannot be decoded; clients keep the last good state of it. Correct or delete the row",
			"resource", r.Key.String(), "revision", r.Revision, "error", err)
		return nil
	}
	return encoded
}

// Encode turns a stored resource into the one that travels.
func Encode(r *store.Resource) (*ads.Resource, error) {
	spec, err := r.Key.Kind.Decode(r.Spec)
	if err != nil {
		return nil, err
	}
	version, err := kinds.ContentVersion(r.Labels, r.Annotations, r.Spec, r.Created)
	if err != nil {
		return nil, err
	}
	body, err := (&kinds.Resource{
		Kind: r.Key.Kind, Namespace: r.Key.Namespace, Name: r.Key.Name,
		Labels: r.Labels, Annotations: r.Annotations, CreateTime: r.Created, Spec: spec,
	}).Any(version)
	if err != nil {
		return nil, err
	}
	return &ads.Resource{Name: r.Key.FullName(), Version: version, Body: body}, nil
}

func (p *Publisher) publish(at store.Position) {
	snap := &ads.Snapshot{Revision: strconv.FormatInt(at.Revision, 10), Sets: make(map[string]*ads.Set, len(p.sets)+1)}
	for k, set := range p.sets {
		snap.Sets[k.TypeURL()] = set
	}
	snap.Sets[mcpv1.BatchTypeURL] = endOf(at)
	p.at = at
	p.loaded.Store(true)
	p.published.Set(float64(at.Revision))
	p.topic.Publish(snap)
}

// endOf is the mark that ends a revision's batch. Its version tells the revision from one of the same number that the database
// had before a failover: a client that has that one still waits for the mark of this one.
func endOf(at store.Position) *ads.Set {
	body, err := anypb.New(&mcpv1.Batch{Revision: at.Revision})
	if err != nil {
		panic(err) // a message of one number always encodes
	}
	version := strconv.FormatInt(at.Revision, 10) + "." + at.Mark
	return ads.NewSet(&ads.Resource{Name: mcpv1.BatchName, Version: version, Body: body})
}
