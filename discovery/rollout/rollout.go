// Package rollout reports to mcp-server which revision each proxy runs.
//
// Nothing is reported for each answer of a proxy. The reporter counts them (watch.go), and knows so
// when the last proxy has come to run a change: then it reports at once. Otherwise it compares every
// proxy a few times a second with the revision that all had a moment to come to (ledger.go). One
// number tells of all that are in step with it; only the others are described. If nothing differs,
// nothing is sent.
package rollout

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/discovery/identity/admit"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// Config says of which proxies a Reporter reports, and to whom.
type Config struct {
	// Server takes the reports; nil if nobody does.
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
	// Streams lists them, in any order.
	Streams func() []*ads.Stream
	// Member says who a proxy is; false if it has left.
	Member func(*served.Subscriber) (push.Member, bool)
	// Revision is that which all proxies have been offered.
	Revision func() int64
	// Push is the number of the push that has offered it.
	Push func() uint64
	// Size is how many resources there are.
	Size func() int
	// Watch has a watcher told of pushes.
	Watch func(push.Watcher)
	// ProblemsSince are those that discovery knows of, as [push.Engine.ProblemsSince] has them.
	ProblemsSince func(turn uint64) (all []push.Problem, now uint64, news bool)
	// Audiences knows whom resources concern.
	Audiences *push.Audiences
	// Versions knows which versions of registries' resources the proxies are offered.
	Versions *push.Versions
	// Statuses knows what the mesh decides of the status of resources of the Gateway API.
	Statuses *push.Statuses
	// Sources are the resources of the mesh that a resource of a proxy's was made from.
	Sources func(s *served.Subscriber, typeURL, name string) []push.Source
	// CertificateEnds is when the certificate ends that a proxy has shown; zero if it has shown none.
	CertificateEnds func(*ads.Stream) time.Time
}

// Of returns the proxies of an engine that a server serves.
func Of(e *push.Engine, s *ads.Server) Proxies {
	return Proxies{
		Streams: s.Unsorted, Member: e.Member, Revision: e.Revision, Push: e.PushNumber, Size: e.Size, Watch: e.Watch,
		ProblemsSince: e.ProblemsSince, Audiences: e.Audiences(), Versions: e.Versions(), Statuses: e.Statuses(), Sources: e.Sources,
		CertificateEnds: func(s *ads.Stream) time.Time {
			if shown := admit.Presented(s.Context()); len(shown) > 0 {
				return shown[0].NotAfter
			}
			return time.Time{}
		},
	}
}

const (
	// interval is how often proxies are compared while something happens. A change that a proxy has
	// not accepted after two intervals is shown as being sent, unless many proxies need longer.
	interval = 250 * time.Millisecond
	// restInterval is how often they are compared while nothing happens.
	restInterval = time.Second
	// leastInterval lies between two reports that all proxies have come to run something. After one,
	// proxies are not compared for an interval. So Postgres is written to eight times a second at
	// most, and what was reported of single proxies keeps nobody waiting.
	leastInterval = 125 * time.Millisecond
)

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
	r := &Reporter{cfg: cfg, metrics: newMetrics(cfg.Metrics)}
	if cfg.Server != nil { // without reports, nothing has to be counted
		r.ledger = newLedger(cfg.Proxies)
	}
	return r
}

// Run reports until the context ends.
func (r *Reporter) Run(ctx context.Context) error {
	if r.cfg.Server == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return r.reports(ctx)
}
