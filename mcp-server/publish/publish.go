// Package publish makes the snapshots that MCP clients are served from.
//
// A source gives a [Publisher] its complete content and then its changes. Each change becomes one
// snapshot that ends with the mark of its revision, so a client that subscribes to marks never sees
// half a transaction. A snapshot shares with the one before it whatever did not change.
package publish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// Publisher keeps a topic at its source's newest position. Its methods may be called concurrently.
type Publisher struct {
	topic       served.Topic
	withSecrets served.Topic // the same with secrets

	id string

	mu          sync.Mutex
	sets        map[*kinds.Kind]*served.Set // the content of the source
	base        map[*kinds.Kind]*served.Set // that of it which is served
	layers      layers                      // what registries add to it
	held        func()                      // publishes what waits for registries; nil if nothing does
	at          Position
	source      Source      // the source as clients are told
	next        Source      // the source of the content to come
	primed      *State      // the saved state, until something is served
	standingSet *served.Set // the standing resource as published last
	loaded      bool        // something is served
	lost        error       // why the source cannot be read; nil if it can

	started         time.Time
	lastSign        atomic.Int64
	firstResult     chan struct{} // closed once the source has delivered something or is lost
	firstResultOnce sync.Once
	begun           chan struct{} // closed once it is known of which mesh the source is
	begunOnce       sync.Once
}

// New returns a publisher without content.
func New(metrics prometheus.Registerer) *Publisher {
	p := &Publisher{id: newID(), started: time.Now(), sets: map[*kinds.Kind]*served.Set{}, firstResult: make(chan struct{}), begun: make(chan struct{})}
	p.register(metrics)
	return p
}

// Subscribe returns the snapshots for one client, without secrets.
func (p *Publisher) Subscribe() *served.Subscriber { return p.topic.Subscribe() }

// SubscribeWithSecrets returns the snapshots with all secrets, for callers that filter them for
// each reader. The snapshots without secrets are in them.
func (p *Publisher) SubscribeWithSecrets() *served.Subscriber { return p.withSecrets.Subscribe() }

// Served waits until clients are served a revision or a later one.
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

// Ready returns an error while clients cannot be answered, and otherwise what an operator should
// know about the answers.
func (p *Publisher) Ready() (about string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.loaded:
		return p.describe(), nil
	case p.held != nil:
		return "", fmt.Errorf("waiting for what these registries have: %s", strings.Join(p.layers.awaited(), ", "))
	case p.lost != nil:
		return "", fmt.Errorf("the first snapshot is not loaded: %w", p.lost)
	}
	return "", errors.New("the first snapshot is not loaded yet")
}

// Last returns the last good state of a resource; nil if there is none.
func (p *Publisher) Last(kind *kinds.Kind, fullName string) *served.Resource {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sets[kind].Get(fullName)
}

// Replace publishes the complete content of a source. Unchanged resources are kept, so that clients
// are sent only the difference.
func (p *Publisher) Replace(all Content, at Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range kinds.All() {
		p.change(k, all.Resources[k], all.removedFrom(p.sets[k], k))
	}
	if all.Secrets {
		p.change(kinds.Secret, all.Resources[kinds.Secret], all.removedFrom(p.sets[kinds.Secret], kinds.Secret))
	}
	p.source = p.next
	p.publishBase(at, time.Time{})
}

// Apply publishes changes of a source.
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
		p.change(k, c.Upserts[k], c.Removed[k])
	}
	p.source = p.next
	p.publishBase(at, c.Committed)
}

// change brings the content of the source up to date, and what is laid over it.
func (p *Publisher) change(k *kinds.Kind, upserts []*served.Resource, removed []string) {
	p.sets[k] = p.sets[k].With(upserts, removed)
	p.layers.follow(k, p.sets[k], upserts, removed)
}

// publishBase publishes the content of the source.
func (p *Publisher) publishBase(at Position, committed time.Time) {
	if p.layers.anew {
		p.layers.onto(p.sets)
	}
	p.publish(maps.Clone(p.sets), at, committed)
}

// publishHeld publishes what was held, if nothing is to be waited for any more.
func (p *Publisher) publishHeld() {
	if held := p.held; held != nil && len(p.layers.awaited()) == 0 {
		p.held = nil
		held()
	}
}

// publish publishes content of the source, with what registries have over it.
func (p *Publisher) publish(base map[*kinds.Kind]*served.Set, at Position, committed time.Time) {
	if p.base = base; !p.loaded && len(p.layers.awaited()) > 0 {
		p.held = func() { p.publish(base, at, committed) }
		p.gotResult()
		return
	}
	sets := p.layers.all(base)
	snap := &served.Snapshot{Revision: strconv.FormatInt(at.Revision, 10), Sets: make(map[string]*served.Set, len(sets)+2)}
	for k, set := range sets {
		if k != kinds.Secret {
			snap.Sets[k.TypeURL()] = set
		}
	}
	snap.Sets[mcpv1.BatchTypeURL] = at.end(committed, p.layers.mark())
	snap.Sets[mcpv1.StandingTypeURL] = p.standing()
	p.at, p.loaded, p.primed, p.lost = at, true, nil, p.source.Err
	p.gotResult()
	secrets := sets[kinds.Secret]
	if base[kinds.Secret] == nil { // those of registries alone would say that the others are gone
		secrets = nil
	}
	p.publishBoth(snap, secrets)
}

// publishBoth publishes a snapshot without secrets and with them. If the source does not know the
// secrets, their type is withheld.
func (p *Publisher) publishBoth(snap *served.Snapshot, secrets *served.Set) {
	whole := &served.Snapshot{Revision: snap.Revision, Sets: maps.Clone(snap.Sets), Without: snap}
	if whole.Sets[kinds.Secret.TypeURL()] = secrets; secrets == nil {
		whole.Withheld = map[string]bool{kinds.Secret.TypeURL(): true}
	}
	p.topic.Publish(snap)
	p.withSecrets.Publish(whole)
}

// updateSource publishes the current content again if clients are to learn something new about the
// source.
func (p *Publisher) updateSource(s Source) {
	before, current := p.source, p.topic.Current()
	if !p.loaded {
		return
	}
	p.source = s
	if s.equal(before) {
		return
	}
	snap := &served.Snapshot{Revision: current.Revision, Sets: maps.Clone(current.Sets)}
	snap.Sets[mcpv1.StandingTypeURL] = p.standing()
	p.publishBoth(snap, p.withSecrets.Current().Sets[kinds.Secret.TypeURL()])
}
