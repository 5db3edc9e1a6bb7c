package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/kinds"
)

// Merged joins several sources. If more than one has a resource, the source named first counts, and
// the resource is reported as shadowed. Nothing is handed on before each source has given its first
// batch: half of a mesh would take routes away from proxies.
type Merged struct {
	sources []Source
	log     *slog.Logger

	mu        sync.Mutex
	held      []map[kinds.Key]*kinds.Resource // by source; nil before its first batch
	revision  int64                           // that of the first source
	committed time.Time                       // the oldest commit that still waits for the other sources; zero if unknown
	begun     bool                            // a first batch was handed on
	shadowed  map[kinds.Key]int               // how many further sources have it

	shadowedCount prometheus.GaugeFunc
}

// Merge joins sources. The first one counts most.
func Merge(log *slog.Logger, metrics prometheus.Registerer, sources ...Source) *Merged {
	m := &Merged{sources: sources, log: log, held: make([]map[kinds.Key]*kinds.Resource, len(sources)), shadowed: map[kinds.Key]int{}}
	m.shadowedCount = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pgmesh_discovery_shadowed_resources",
		Help: "Resources that several sources have, of which only that of the first source is in force.",
	}, func() float64 { return float64(len(m.Shadowed())) })
	metrics.MustRegister(m.shadowedCount)
	return m
}

// First is the source that counts most. It gives the revisions.
func (m *Merged) First() Source { return m.sources[0] }

// Name lists the sources.
func (m *Merged) Name() string {
	names := make([]string, len(m.sources))
	for i, s := range m.sources {
		names[i] = s.Name()
	}
	return strings.Join(names, ",")
}

// Ready is an error as long as one source has one.
func (m *Merged) Ready() (string, error) {
	var about []string
	var missing []error
	for _, s := range m.sources {
		said, err := s.Ready()
		if err != nil {
			missing = append(missing, err)
		}
		if said != "" {
			about = append(about, said)
		}
	}
	return strings.Join(about, "; "), errors.Join(missing...)
}

// Shadowed lists the resources that more than one source has.
func (m *Merged) Shadowed() []kinds.Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]kinds.Key, 0, len(m.shadowed))
	for key := range m.shadowed {
		out = append(out, key)
	}
	return out
}

// Run follows all sources until the context ends or one fails.
func (m *Merged) Run(ctx context.Context, apply func(kinds.Batch) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for i, s := range m.sources {
		g.Go(func() error {
			return s.Run(ctx, func(b kinds.Batch) error { return m.take(i, b, apply) })
		})
	}
	return g.Wait()
}

// take applies a batch of one source.
func (m *Merged) take(from int, b kinds.Batch, apply func(kinds.Batch) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := m.hold(from, b.Changes)
	if from == 0 { // revisions are those of the first source
		m.revision = b.Revision
	}
	switch {
	case m.begun:
		return apply(kinds.Batch{Revision: m.revision, Mark: b.Mark, Committed: b.Committed, Changes: changed, InForce: b.InForce})
	case m.complete():
		m.begun = true
		return apply(kinds.Batch{Revision: m.revision, Mark: b.Mark, Committed: earlier(m.committed, b.Committed), Changes: m.everything(), InForce: b.InForce})
	default:
		m.committed = earlier(m.committed, b.Committed)
		b.TellInForce() // nothing is served that is older, nor will be
		return nil
	}
}

// earlier is the first of two times. Zero means unknown.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (m *Merged) complete() bool {
	for _, held := range m.held {
		if held == nil {
			return false
		}
	}
	return true
}

// hold keeps the changes of a source, and returns those that take effect.
func (m *Merged) hold(from int, changes []kinds.Change) []kinds.Change {
	if m.held[from] == nil {
		m.held[from] = map[kinds.Key]*kinds.Resource{}
	}
	var inForce []kinds.Change
	for _, c := range changes {
		before := m.get(c.Key)
		if c.Resource == nil {
			delete(m.held[from], c.Key)
		} else {
			m.held[from][c.Key] = c.Resource
		}
		m.note(c.Key)
		if after := m.get(c.Key); after != before {
			c.Resource = after
			inForce = append(inForce, c)
		}
	}
	return inForce
}

// get returns the resource that counts.
func (m *Merged) get(key kinds.Key) *kinds.Resource {
	for _, held := range m.held {
		if r := held[key]; r != nil {
			return r
		}
	}
	return nil
}

// note logs, once, that several sources have a resource.
func (m *Merged) note(key kinds.Key) {
	var owners []string
	for i, held := range m.held {
		if held[key] != nil {
			owners = append(owners, m.sources[i].Name())
		}
	}
	if len(owners) < 2 {
		delete(m.shadowed, key)
		return
	}
	if m.shadowed[key] != len(owners) {
		m.log.Warn("several sources have this resource, and the first one's is in force; remove it from the others",
			"resource", key.String(), "sources", fmt.Sprint(owners))
	}
	m.shadowed[key] = len(owners)
}

func (m *Merged) everything() []kinds.Change {
	all := map[kinds.Key]*kinds.Resource{}
	for _, held := range m.held {
		for key, r := range held {
			if all[key] == nil {
				all[key] = r
			}
		}
	}
	return changesOf(all)
}
