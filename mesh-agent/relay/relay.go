// Package relay is Envoy's discovery on the machine itself: it passes each of Envoy's streams on to a discovery, message by message and as it
// came, and back. So Envoy needs to know of one socket, and the agent has one connection, shows its certificate, and finds another replica
// when one is gone.
//
// What Envoy has accepted is kept (package lastgood). An Envoy that starts while no discovery answers is served that.
package relay

import (
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/mesh-agent/lastgood"
	"github.com/pgmesh/pgmesh/mesh-agent/upstream"
	"github.com/pgmesh/pgmesh/mesh-agent/wire"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// Options say between whom messages are passed on.
type Options struct {
	Discovery *upstream.Upstream
	// Names is told each table of names that discovery sends. Without it there is no subscription to one.
	Names func(*ndsv1.NameTable)
	// Kept has what Envoy has accepted. Without it nothing is kept.
	Kept *lastgood.Store
	// Patience is how long an Envoy that has nothing waits for a discovery before it is served what was kept, 1.5 s if it is 0.
	Patience time.Duration
	Log      *slog.Logger
	// Metrics are registered here, unless it is nil.
	Metrics prometheus.Registerer
}

// Server serves Envoy.
type Server struct {
	Options

	metrics *metrics

	mu     sync.Mutex
	status Status
	held   map[string]string // the versions of the names that Options.Names was told
}

const (
	defaultPatience = 1500 * time.Millisecond
	// silence is how long a discovery that is connected to may take for its first answer: it may have many to answer.
	silence = 5 * time.Second
)

// New makes a server.
func New(o Options) *Server {
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{Options: o, metrics: newMetrics(o.Metrics), status: Status{State: Waiting, Since: time.Now()}}
	s.recallNames()
	return s
}

// The calls of an aggregated discovery service.
const (
	service   = "envoy.service.discovery.v3.AggregatedDiscoveryService"
	deltaCall = "DeltaAggregatedResources"
	sotwCall  = "StreamAggregatedResources"
)

var methods = map[wire.Form]string{wire.Delta: "/" + service + "/" + deltaCall, wire.SotW: "/" + service + "/" + sotwCall}

// Register has Envoy served on a gRPC server, which has to have been made with ServerOption.
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
