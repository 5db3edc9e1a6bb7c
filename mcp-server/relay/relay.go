// Package relay is the source that follows another MCP server in place of a database.
//
// What a pgmesh server sends is passed on as it is: bodies byte for byte, names, versions, the numbers of revisions and where each
// ends. So a client may go from that server to the relay and back, and is sent nothing again. Servers of other makes have no
// revisions; the relay numbers what it hears from them itself.
//
// A relay only goes back in time when its mesh does. It follows no server that follows it, and none that has lost its own source and
// is behind; and it leaves the mesh that it serves only if none of its upstreams serves that.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/wait"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
)

// Options of a Relay. What comes after DialOptions is right for production if it is zero.
type Options struct {
	// Upstreams are the addresses of servers of one mesh. One is followed; when it is lost, the next.
	Upstreams []string
	// DialOptions must hold the transport credentials.
	DialOptions []grpc.DialOption
	// Silence is how long an upstream may take to say anything; 15 s if 0.
	Silence time.Duration
	// Stale is how long an upstream is followed that has lost its own source, if there are others; 30 s if 0.
	Stale time.Duration
}

// Reasons to leave an upstream.
var (
	errLoop    = errors.New("it gets what it serves from this server")
	errBehind  = errors.New("it has lost its own source, and is behind what is served here")
	errMesh    = errors.New("it serves another mesh")
	errSilence = errors.New("it accepts streams and says nothing: it may have nothing to serve yet")
	errStale   = errors.New("it has lost its own source")
)

// Relay brings a publisher to the newest revision of an upstream.
type Relay struct {
	options   Options
	publisher *publish.Publisher
	log       *slog.Logger
	metrics   metrics

	strangers map[string]string // the other meshes that upstreams have said they serve, when they were last asked
	stale     bool              // the upstream that was heard last has lost its own source
	said      map[string]string // the last failure by upstream: the same one over and over is said once

	link link

	mu        sync.Mutex
	following string
}

// New returns a relay into a publisher.
func New(p *publish.Publisher, log *slog.Logger, registry prometheus.Registerer, o Options) *Relay {
	if o.Silence == 0 {
		o.Silence = 15 * time.Second
	}
	if o.Stale == 0 {
		o.Stale = 30 * time.Second
	}
	return &Relay{
		options: o, publisher: p, log: log, metrics: newMetrics(registry, o.Upstreams),
		strangers: map[string]string{}, said: map[string]string{}, following: o.Upstreams[0], link: link{now: Link{Since: time.Now()}},
	}
}

// Following is the upstream that is followed, or was last.
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

// Run follows one upstream after the other until the context ends. While all are away, clients keep what they have.
func (r *Relay) Run(ctx context.Context) error {
	retry := &backoff.ExponentialBackOff{
		InitialInterval: 50 * time.Millisecond, MaxInterval: 5 * time.Second, Multiplier: 1.6, RandomizationFactor: 0.5,
	}
	for failures := 0; ctx.Err() == nil; {
		upstream := r.options.Upstreams[failures%len(r.options.Upstreams)]
		delivered, err := r.follow(ctx, upstream)
		if ctx.Err() != nil {
			break
		}
		if errors.Is(err, errAnew) {
			continue
		}
		if delivered {
			retry.Reset()
			delete(r.said, upstream)
		}
		r.failed(upstream, err)
		if failures++; failures%len(r.options.Upstreams) == 0 || delivered {
			wait.For(ctx, retry.NextBackOff())
		}
	}
	return ctx.Err()
}

// failed notes why an upstream is not followed.
func (r *Relay) failed(upstream string, err error) {
	if !errors.Is(err, errMesh) {
		delete(r.strangers, upstream)
	}
	r.publisher.Lost(fmt.Errorf("upstream %s: %w", upstream, err))
	r.metrics.failures.WithLabelValues(upstream).Inc()
	r.link.lost()
	if r.said[upstream] != err.Error() {
		r.said[upstream] = err.Error()
		r.log.Warn("cannot follow the upstream; clients keep what they have, and the server goes on trying", "upstream", upstream, "error", err)
	}
}

// agreed tells whether all upstreams serve a mesh that is not the one served here. One server of a wrong mesh in the list must not replace
// everything, but when all agree, the mesh was made anew.
func (r *Relay) agreed(mesh string) bool {
	for _, upstream := range r.options.Upstreams {
		if told, ok := r.strangers[upstream]; !ok || told != mesh {
			return false
		}
	}
	return true
}

// loops tells whether a path leads through this server.
func (r *Relay) loops(path []string) bool { return slices.Contains(path, r.publisher.ID()) }
