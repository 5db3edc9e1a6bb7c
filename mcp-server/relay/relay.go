// Package relay is the source that follows another MCP server instead of a database.
//
// It passes on what a pgmesh server sends unchanged: bodies byte for byte, names, versions,
// revisions and where each ends. So a client may move between that server and the relay, and is not
// sent anything twice. Other makes of servers have no revisions, so the relay numbers what they
// send.
//
// A relay goes back in time only if its mesh does. It does not follow a server that follows it, nor
// one that has lost its own source and is behind. It changes to another mesh only if all its
// upstreams serve that.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
)

// Options of a Relay. For the fields after DialOptions, zero is right for production.
type Options struct {
	// Upstreams are the addresses of servers of one mesh. One is followed at a time, and the next
	// when it is lost.
	Upstreams []string
	// DialOptions must hold the transport credentials.
	DialOptions []grpc.DialOption
	// SilenceTimeout is how long an upstream may take to say anything; 15 s if 0.
	SilenceTimeout time.Duration
	// StaleTimeout is how long an upstream that has lost its own source is followed, if there are
	// others; 30 s if 0.
	StaleTimeout time.Duration
	// Published is called with each batch after the first of an upstream once it is served, if it is
	// not nil, with the revision before it and when the relay began to work on it.
	Published func(b kinds.Batch, before int64, upstream string, began time.Time)
}

// The reasons for leaving an upstream.
var (
	errLoop    = errors.New("it gets what it serves from this server")
	errBehind  = errors.New("it has lost its own source, and is behind what is served here")
	errMesh    = errors.New("it serves another mesh")
	errSilence = errors.New("it accepts streams and says nothing: it may have nothing to serve yet")
	errStale   = errors.New("it has lost its own source")
)

// Relay keeps a publisher at the newest revision of an upstream.
type Relay struct {
	options   Options
	publisher *publish.Publisher
	log       *slog.Logger
	metrics   metrics

	otherMeshes map[string]string // by upstream: the other mesh that it said it serves
	stale       bool              // the upstream that reported last has lost its own source
	lastErrors  map[string]string // by upstream, so that a repeated failure is logged once

	link link

	mu        sync.Mutex
	following string
}

// New returns a relay into a publisher.
func New(p *publish.Publisher, log *slog.Logger, registry prometheus.Registerer, o Options) *Relay {
	if o.SilenceTimeout == 0 {
		o.SilenceTimeout = 15 * time.Second
	}
	if o.StaleTimeout == 0 {
		o.StaleTimeout = 30 * time.Second
	}
	return &Relay{
		options: o, publisher: p, log: log, metrics: newMetrics(registry, o.Upstreams),
		otherMeshes: map[string]string{}, lastErrors: map[string]string{}, following: o.Upstreams[0], link: link{now: Link{Since: time.Now()}},
	}
}

// Following returns the upstream that is followed, or was last.
func (r *Relay) Following() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.following
}

func (r *Relay) follows(upstream string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.following = upstream
}

// Run follows one upstream after another until the context ends. While all are away, clients keep
// what they have.
func (r *Relay) Run(ctx context.Context) error {
	pauses := retry.Pauses{First: 50 * time.Millisecond, Longest: 5 * time.Second}.Backoff() // between rounds
	for failures := 0; ctx.Err() == nil; {
		upstream := r.options.Upstreams[failures%len(r.options.Upstreams)]
		delivered, err := r.follow(ctx, upstream)
		if ctx.Err() != nil {
			break
		}
		if errors.Is(err, errRestart) {
			continue
		}
		if delivered {
			r.link.lost()
			pauses.Reset()
			delete(r.lastErrors, upstream)
		}
		r.failed(upstream, err)
		if failures++; failures%len(r.options.Upstreams) == 0 || delivered {
			pauses.Wait(ctx)
		}
	}
	return ctx.Err()
}

// failed records why an upstream is not followed.
func (r *Relay) failed(upstream string, err error) {
	if !errors.Is(err, errMesh) {
		delete(r.otherMeshes, upstream)
	}
	r.publisher.Lost(fmt.Errorf("upstream %s: %w", upstream, err))
	r.metrics.failures.WithLabelValues(upstream).Inc()
	if r.lastErrors[upstream] != err.Error() {
		r.lastErrors[upstream] = err.Error()
		r.log.Warn("cannot follow the upstream; clients keep what they have, and the server goes on trying", "upstream", upstream, "error", err)
	}
}

// allServe reports whether all upstreams serve another mesh. One wrong server in the list must not
// replace everything, but if all agree, the mesh was created anew.
func (r *Relay) allServe(mesh string) bool {
	for _, upstream := range r.options.Upstreams {
		if told, ok := r.otherMeshes[upstream]; !ok || told != mesh {
			return false
		}
	}
	return true
}

// loops reports whether a path leads through this server.
func (r *Relay) loops(path []string) bool { return slices.Contains(path, r.publisher.ID()) }
