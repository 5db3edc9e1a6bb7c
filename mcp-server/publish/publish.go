// Package publish makes the snapshots that MCP clients are served from.
//
// A source gives a [Publisher] everything that it has, and then what changes. Each change becomes one snapshot, which ends with the
// mark of its revision, so that a client that asks for the mark never sees half a transaction. What a change does not touch is shared
// with the snapshot before.
package publish

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// Publisher keeps a topic at the newest position that its source told of. Its methods may be called concurrently.
type Publisher struct {
	topic ads.Topic

	mu     sync.Mutex
	sets   map[*kinds.Kind]*ads.Set
	at     Position
	loaded bool
	lost   error

	published prometheus.Gauge
}

// New returns a publisher that has nothing yet.
func New(metrics prometheus.Registerer) *Publisher {
	p := &Publisher{
		sets:      map[*kinds.Kind]*ads.Set{},
		published: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pgmesh_mcp_server_revision", Help: "The revision that clients are served."}),
	}
	metrics.MustRegister(p.published)
	return p
}

// Subscribe returns the snapshots for one client.
func (p *Publisher) Subscribe() *ads.Subscriber { return p.topic.Subscribe() }

// Served returns when clients are served a revision, or a later one.
func (p *Publisher) Served(ctx context.Context, revision int64) error {
	news := p.topic.Subscribe()
	defer news.Close()
	for {
		if snap := news.Snapshot(); snap != nil {
			if published, err := strconv.ParseInt(snap.Revision, 10, 64); err != nil || published >= revision {
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
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.loaded:
		return nil
	case p.lost != nil:
		return fmt.Errorf("the first snapshot is not loaded: %w", p.lost)
	}
	return errors.New("the first snapshot is not loaded yet")
}

// Has returns a resource as clients are served it, or nil.
func (p *Publisher) Has(kind *kinds.Kind, fullName string) *ads.Resource {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sets[kind].Get(fullName)
}

// Replace publishes everything that a source has. What is the same as before stays the same, so that clients are only sent what
// differs.
func (p *Publisher) Replace(all Content, at Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range kinds.All() {
		p.sets[k] = p.sets[k].With(all.Resources[k], all.missing(p.sets[k], k))
	}
	p.publish(at)
}

// Apply publishes what a source has changed.
func (p *Publisher) Apply(c Changes, at Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	touched := map[*kinds.Kind]bool{}
	for k := range c.Upserts {
		touched[k] = true
	}
	for k := range c.Removed {
		touched[k] = true
	}
	for k := range touched {
		p.sets[k] = p.sets[k].With(c.Upserts[k], c.Removed[k])
	}
	p.publish(at)
}

// Lost says that the source cannot be read, and why. What it gave stays in force.
func (p *Publisher) Lost(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = err
}

func (p *Publisher) publish(at Position) {
	snap := &ads.Snapshot{Revision: strconv.FormatInt(at.Revision, 10), Sets: make(map[string]*ads.Set, len(p.sets)+1)}
	for k, set := range p.sets {
		snap.Sets[k.TypeURL()] = set
	}
	snap.Sets[mcpv1.BatchTypeURL] = at.end()
	p.at, p.loaded, p.lost = at, true, nil
	p.published.Set(float64(at.Revision))
	p.topic.Publish(snap)
}
