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
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// Publisher keeps a topic at the newest position that its source told of. Its methods may be called concurrently.
type Publisher struct {
	topic ads.Topic
	whole ads.Topic // with secrets

	id string

	mu     sync.Mutex
	sets   map[*kinds.Kind]*ads.Set
	at     Position
	source Source   // what clients are told
	next   Source   // what the source itself says
	primed *State   // what was served last, until something is served
	told   *ads.Set // of the source
	loaded bool
	lost   error

	made      time.Time
	sign      atomic.Int64
	first     chan struct{}
	firstOnce sync.Once
}

// New returns a publisher that has nothing yet.
func New(metrics prometheus.Registerer) *Publisher {
	p := &Publisher{id: newID(), made: time.Now(), sets: map[*kinds.Kind]*ads.Set{}, first: make(chan struct{})}
	p.register(metrics)
	return p
}

// Subscribe returns the snapshots for one client. There is no secret in them.
func (p *Publisher) Subscribe() *ads.Subscriber { return p.topic.Subscribe() }

// SubscribeWithSecrets returns the snapshots with all secrets, for those who see to it that each is shown to whom it may be shown. Those
// without are in them.
func (p *Publisher) SubscribeWithSecrets() *ads.Subscriber { return p.whole.Subscribe() }

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

// Ready tells what is missing before clients can be answered, and when they can, what there is to say about the answers.
func (p *Publisher) Ready() (about string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.loaded:
		return p.describe(), nil
	case p.lost != nil:
		return "", fmt.Errorf("the first snapshot is not loaded: %w", p.lost)
	}
	return "", errors.New("the first snapshot is not loaded yet")
}

// Last returns the last state of a resource that could be served, or nil.
func (p *Publisher) Last(kind *kinds.Kind, fullName string) *ads.Resource {
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
	if all.Secrets {
		p.sets[kinds.Secret] = p.sets[kinds.Secret].With(all.Resources[kinds.Secret], all.missing(p.sets[kinds.Secret], kinds.Secret))
	}
	p.source = p.next
	p.publish(p.sets, at, time.Time{})
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
	p.source = p.next
	p.publish(p.sets, at, c.Committed)
}

func (p *Publisher) publish(sets map[*kinds.Kind]*ads.Set, at Position, committed time.Time) {
	snap := &ads.Snapshot{Revision: strconv.FormatInt(at.Revision, 10), Sets: make(map[string]*ads.Set, len(sets)+2)}
	for k, set := range sets {
		if k != kinds.Secret {
			snap.Sets[k.TypeURL()] = set
		}
	}
	snap.Sets[mcpv1.BatchTypeURL] = at.end(committed)
	snap.Sets[mcpv1.StandingTypeURL] = p.standing()
	p.at, p.loaded, p.primed, p.lost = at, true, nil, p.source.Err
	p.heard()
	p.offer(snap, sets[kinds.Secret])
}

// offer publishes a snapshot, without secrets and with them. Where nothing is known of those, clients are told nothing of them.
func (p *Publisher) offer(snap *ads.Snapshot, secrets *ads.Set) {
	whole := &ads.Snapshot{Revision: snap.Revision, Sets: maps.Clone(snap.Sets), Without: snap}
	if whole.Sets[kinds.Secret.TypeURL()] = secrets; secrets == nil {
		whole.Withheld = map[string]bool{kinds.Secret.TypeURL(): true}
	}
	p.topic.Publish(snap)
	p.whole.Publish(whole)
}

// tell publishes what is served already, with the news of where it is from.
func (p *Publisher) tell(s Source) {
	before, current := p.source, p.topic.Current()
	if !p.loaded {
		return
	}
	p.source = s
	if s.same(before) {
		return
	}
	snap := &ads.Snapshot{Revision: current.Revision, Sets: maps.Clone(current.Sets)}
	snap.Sets[mcpv1.StandingTypeURL] = p.standing()
	p.offer(snap, p.whole.Current().Sets[kinds.Secret.TypeURL()])
}
