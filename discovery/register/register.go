// Package register makes machines endpoints of the mesh for as long as they are connected, and
// tells them how to start their proxies.
//
// It keeps what machines say, as an instance for each service of each machine, and reports it to
// mcp-server, which has the WorkloadEntries written. A session with mcp-server begins with all
// instances; after that, changes are reported. A report has the present state of an instance, so
// that one that changes back and forth costs no more than one that changes once. Many changes go
// together in a batch.
package register

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/kinds"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// Config says who may register, and where machines are registered.
type Config struct {
	// Server registers machines; nil if there is no mcp-server.
	Server machinev1.RegistryServiceClient
	// Name is the name of this discovery there.
	Name string
	// Who returns the machine that calls.
	Who     func(context.Context) (*Caller, error)
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Caller is a machine, by its certificate.
type Caller struct {
	Namespace, ServiceAccount, Enrolment string
	// ShutOut reports whether it was revoked since.
	ShutOut func() bool
}

// AsItSays is the Config.Who of a discovery without TLS: a machine is who it says that it is.
func AsItSays(context.Context) (*Caller, error) { return asItSays, nil }

var asItSays = &Caller{}

// proven reports whether a certificate says who calls, and not the machine itself.
func (c *Caller) proven() bool { return c != asItSays }

// Service is a discovery's MachineService.
type Service struct {
	machinev1.UnimplementedMachineServiceServer

	cfg     Config
	mesh    atomic.Pointer[mesh.Mesh] // nil before there is a configuration
	begun   chan struct{}             // closed when there is one
	roster  *roster
	metrics *metrics
	done    chan struct{} // closed by Shutdown
	inside  *streamCounts // streams by enrolment
	names   *names
}

// unconfigured is why there is no session before there is a configuration.
const unconfigured = "discovery has no configuration yet: its /readyz says what it waits for"

// New returns a service.
func New(cfg Config) *Service {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{cfg: cfg, begun: make(chan struct{}), done: make(chan struct{}), inside: newStreamCounts(), names: newNames()}
	s.roster = newRoster(s.group)
	s.metrics = newMetrics(cfg.Metrics, s.roster)
	if cfg.Server == nil {
		s.roster.lost("this discovery follows no mcp-server, which alone keeps WorkloadEntries: write one by hand, or register at another discovery", false)
	} else {
		s.roster.lost(unconfigured, true)
	}
	return s
}

// AddTo adds the service to a gRPC server.
func (s *Service) AddTo(r grpc.ServiceRegistrar) { machinev1.RegisterMachineServiceServer(r, s) }

// Shutdown ends the streams. It must be called once.
func (s *Service) Shutdown() { close(s.done) }

// pauses are those before the next session. The longest is short beside the grace period.
var pauses = retry.Pauses{First: 250 * time.Millisecond, Longest: 5 * time.Second}

// retryEvery is how often refused instances are tried again, beside whenever the reason may have
// gone.
const retryEvery = 30 * time.Second

// Run reports to mcp-server until the context ends.
func (s *Service) Run(ctx context.Context) error {
	if s.cfg.Server == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		for {
			select {
			case <-tick.C:
				s.roster.retry()
			case <-ctx.Done():
				return
			}
		}
	}()
	err := s.sessions(ctx)
	<-stop
	return err
}

// groupAnnotation says which WorkloadGroup a registered entry is of.
const groupAnnotation = "istio.io/autoRegistrationGroup"

// Follow is told each new state of the mesh, and the step that led to it.
func (s *Service) Follow(m *mesh.Mesh, step configstore.Step) {
	if s.mesh.Swap(m) == nil {
		s.roster.configured()
		close(s.begun)
	}
	for _, e := range step.Edits(mesh.WorkloadGroup) {
		r := cmp.Or(e.After, e.Before)
		s.roster.groupChanged(r.Namespace, r.Name)
	}
	s.names.follow(step.Edits(mesh.WorkloadEntry))
	for _, e := range step.Edits(mesh.WorkloadEntry) {
		if r := e.After; r == nil {
			s.roster.entryGone(e.Before.Namespace, e.Before.Name)
		} else {
			s.roster.entryMade(refusedKey{r.Namespace, r.Annotations[groupAnnotation], r.Annotations[kinds.MachineAnnotation]})
		}
	}
}

// group is what registration needs of a WorkloadGroup.
type group struct {
	probe   *machinev1.Probe // nil for none
	account string           // the service account of its machines
}

// group returns the WorkloadGroup of a name; nil if there is none, or it has not come here yet.
func (s *Service) group(namespace, name string) *group {
	m := s.mesh.Load()
	if m == nil {
		return nil
	}
	g := m.WorkloadGroup(namespace, name)
	if g == nil {
		return nil
	}
	return &group{probeOf(g.GetProbe()), cmp.Or(g.GetTemplate().GetServiceAccount(), "default")}
}
