// Package legacy serves the first generation of MCP, Istio's Mesh Configuration Protocol, as Istio
// 1.0 to 1.8 speak it: to sinks that dial (ResourceSource, and the aggregated service before it),
// and to sinks that are dialled (ResourceSink).
//
// All forms carry one exchange. A sink asks for collections, and each is answered, even if it is
// empty. A stream has at most one unanswered response for each collection; later changes are merged
// and sent after the answer.
package legacy

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/limits"
	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mcp-server/clients"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// MaxMessage is the largest message, in bytes, that a Pilot receives by default.
const MaxMessage = 4 << 20

// Config configures a Source.
type Config struct {
	// Open returns the snapshots for a stream. Its error ends the stream and should carry a gRPC
	// status.
	Open func(context.Context) (*served.Subscriber, error)
	// Everything returns the snapshots for sinks that are dialled.
	Everything func() *served.Subscriber
	// Credentials returns the credentials to dial a sink with.
	Credentials func(Sink) (credentials.TransportCredentials, error)
	// Budgets are shared with all other readers. Nil means no budgets.
	Budgets *ads.Budgets
	// Reader names the reader whose budget a stream uses. Nil means the address of the peer.
	Reader func(context.Context) string
	// MaxMessage is the largest message in bytes; 0 means what Pilots receive by default.
	MaxMessage int
	// Clients tracks who is connected.
	Clients *clients.Roll
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Source serves resources to sinks.
type Source struct {
	legacyv1.UnimplementedResourceSourceServer
	legacyv1.UnimplementedAggregatedMeshConfigServiceServer

	cfg      Config
	metrics  *metrics
	contents contentCache  // shared by all streams
	reports  openStreams   // of the open streams
	arrivals *rate.Limiter // limits new streams
	done     chan struct{} // closed by Shutdown
}

// Sinks whose server has died reconnect all at once. Streams beyond this rate wait.
const (
	arrivalsPerSecond = 20
	arrivalsBurst     = 100
)

// NewSource returns a source that is ready to be registered.
func NewSource(cfg Config) *Source {
	if cfg.MaxMessage == 0 {
		cfg.MaxMessage = MaxMessage
	}
	if cfg.Budgets == nil {
		cfg.Budgets = &ads.Budgets{}
	}
	if cfg.Reader == nil {
		cfg.Reader = limits.Origin
	}
	s := &Source{cfg: cfg, arrivals: rate.NewLimiter(arrivalsPerSecond, arrivalsBurst), done: make(chan struct{})}
	s.metrics = newMetrics(cfg.Metrics, &s.reports)
	return s
}

// Register adds the services to a gRPC server.
func (s *Source) Register(r grpc.ServiceRegistrar) {
	legacyv1.RegisterResourceSourceServer(r, s)
	legacyv1.RegisterAggregatedMeshConfigServiceServer(r, s)
}

// Shutdown ends every stream, so that a graceful stop of the gRPC server does not wait for sinks.
// Call it once.
func (s *Source) Shutdown() { close(s.done) }

// Streams lists the open streams.
func (s *Source) Streams() []Stream { return s.reports.read() }

// EstablishResourceStream serves a sink that dialled.
func (s *Source) EstablishResourceStream(g grpc.BidiStreamingServer[legacyv1.RequestResources, legacyv1.Resources]) error {
	return s.serve(g, "ResourceSource", exchange{stream: g, reader: s.reader(g.Context())})
}

// StreamAggregatedResources serves a sink of Istio 1.0 or 1.1.
func (s *Source) StreamAggregatedResources(g grpc.BidiStreamingServer[legacyv1.MeshConfigRequest, legacyv1.MeshConfigResponse]) error {
	return s.serve(g, "AggregatedMeshConfigService", aggregated{g, s.reader(g.Context())})
}

// IncrementalAggregatedResources serves a sink of the aggregated service that takes changes.
func (s *Source) IncrementalAggregatedResources(
	g grpc.BidiStreamingServer[legacyv1.IncrementalMeshConfigRequest, legacyv1.IncrementalMeshConfigResponse],
) error {
	return s.serve(g, "AggregatedMeshConfigService", incrementalAggregated{g, s.reader(g.Context())})
}

func (s *Source) reader(ctx context.Context) *limits.Reader {
	return &limits.Reader{Context: ctx, Memory: s.cfg.Budgets.Memory, Holder: s.cfg.Reader(ctx)}
}

var errShutdown = status.Error(codes.Unavailable, "the server is shutting down")

func (s *Source) serve(g grpc.ServerStream, service string, w wire) error {
	ctx := g.Context()
	if err := s.arrivals.Wait(ctx); err != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	view, err := s.cfg.Open(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	if err := g.SendHeader(metadata.Pairs(legacyv1.VersionHeader, "pgmesh/"+program.Version())); err != nil {
		return err
	}
	from := "unknown"
	if p, ok := peer.FromContext(ctx); ok {
		from = p.Addr.String()
	}
	// The receiver ends with the handler: gRPC ends its Recv when the handler returns.
	requests, failed := receive(ctx, w)
	return s.stream(ctx, service, from, w, view, requests, failed)
}

// stream serves one sink until its stream ends.
func (s *Source) stream(ctx context.Context, service, peer string, w wire, view *served.Subscriber, requests <-chan *request, failed <-chan error) error {
	open := s.metrics.streams.WithLabelValues(service)
	open.Inc()
	defer open.Dec()
	r := s.reports.begin(service, peer)
	defer s.reports.end(r)
	one := newStream(s, w, view, s.cfg.Log.With("sink", peer), r, s.cfg.Reader(ctx))
	defer one.leave()
	return one.run(ctx, requests, failed)
}
