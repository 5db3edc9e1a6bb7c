// Package rollout reports to mcp-server which revision each proxy runs.
//
// Nothing is reported for each answer of a proxy. A few times a second the reporter compares every
// proxy with the revision that all had a moment to come to (ledger.go). One number tells of all
// that are in step with it; only the others are described. If nothing differs, nothing is sent.
package rollout

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// Config says of which proxies a Reporter reports, and to whom.
type Config struct {
	// Server takes the reports; nil if there is no mcp-server.
	Server rolloutv1.RolloutServiceClient
	// Name is the name of this discovery there.
	Name string
	// Proxies are those that are connected.
	Proxies Proxies
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Proxies are the connected proxies, and what they are to run.
type Proxies struct {
	// Streams lists them.
	Streams func() []*ads.Stream
	// Member says who a proxy is; false if it has left.
	Member func(*served.Subscriber) (push.Member, bool)
	// Revision is that which all proxies have been offered.
	Revision func() int64
}

// Of returns the proxies of an engine that a server serves.
func Of(e *push.Engine, s *ads.Server) Proxies {
	return Proxies{Streams: s.Streams, Member: e.Member, Revision: e.Revision}
}

// interval is how often proxies are compared, and so how often Postgres is written to at most. A
// change that a proxy has not accepted after two intervals is shown as being sent.
const interval = 250 * time.Millisecond

// Reporter reports for one discovery.
type Reporter struct {
	cfg     Config
	ledger  *ledger
	metrics *metrics
}

// New returns a reporter.
func New(cfg Config) *Reporter {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Reporter{cfg: cfg, ledger: newLedger(cfg.Proxies), metrics: newMetrics(cfg.Metrics)}
}

// Run reports until the context ends.
func (r *Reporter) Run(ctx context.Context) error {
	if r.cfg.Server == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return r.reports(ctx)
}
