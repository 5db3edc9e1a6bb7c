// Package relay is Envoy's xDS server on the machine. It passes Envoy's streams on to discovery and
// back, message by message and unchanged. So Envoy needs only a local socket, while the agent owns
// the connection: it shows the certificate and fails over to another replica.
//
// The configuration that Envoy accepts is stored (package lastgood), and served to an Envoy that
// starts while no discovery answers.
package relay

import (
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/mesh-agent/wasm"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/lastgood"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/passage"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/wire"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// Options configure a Server.
type Options struct {
	Discovery *upstream.Upstream
	// Names receives each name table that discovery sends. If it is nil, the agent does not
	// subscribe to them.
	Names func(*ndsv1.NameTable)
	// Kept stores what Envoy accepts. If it is nil, nothing is stored.
	Kept *lastgood.Store
	// Modules fetches the modules of Wasm plugins. If it is nil, plugins are passed on as they come.
	Modules *wasm.Modules
	// FallbackAfter is how long an Envoy without configuration waits for discovery before it is
	// served the last good one; 0 means 1.5 s.
	FallbackAfter time.Duration
	// Passage records the way of revisions; nil if they are not traced.
	Passage *passage.Recorder
	Log     *slog.Logger
	// Metrics registers the metrics, unless it is nil.
	Metrics prometheus.Registerer
}

// Server answers Envoy's xDS streams.
type Server struct {
	Options

	metrics *metrics

	mu           sync.Mutex
	status       Status
	refusals     *refusals         // of the newest stream; nil before the first
	nameVersions map[string]string // versions of the table that Options.Names received last
}

const (
	defaultFallbackAfter = 1500 * time.Millisecond
	// firstAnswerTimeout is how long a connected discovery may take for its first response: it may
	// have many proxies to answer.
	firstAnswerTimeout = 5 * time.Second
)

// New returns a server, and restores the stored name table.
func New(o Options) *Server {
	if o.FallbackAfter == 0 {
		o.FallbackAfter = defaultFallbackAfter
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{Options: o, metrics: newMetrics(o.Metrics), status: Status{State: Waiting, Since: time.Now()}}
	s.restoreNames()
	return s
}

// The methods of the aggregated discovery service.
const (
	service   = "envoy.service.discovery.v3.AggregatedDiscoveryService"
	deltaCall = "DeltaAggregatedResources"
	sotwCall  = "StreamAggregatedResources"
)

var methods = map[wire.Form]string{wire.Delta: "/" + service + "/" + deltaCall, wire.SotW: "/" + service + "/" + sotwCall}

// Register registers the service on a gRPC server made with ServerOption.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: service, HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{
			{StreamName: deltaCall, ClientStreams: true, ServerStreams: true, Handler: s.handler(wire.Delta)},
			{StreamName: sotwCall, ClientStreams: true, ServerStreams: true, Handler: s.handler(wire.SotW)},
		},
	}, s)
}

func (s *Server) handler(form wire.Form) grpc.StreamHandler {
	return func(_ any, down grpc.ServerStream) error {
		st := newStream(s, form, down)
		defer st.kept.Close()
		return st.run(down.Context())
	}
}
