// Package register makes machines endpoints of the mesh for as long as they are connected, and tells them how their proxies are to be started.
//
// What the machines say is kept here, an instance for each service of each machine, and reported to mcp-server, which has their WorkloadEntries
// written: all of it when a session with it begins, and then what changes. Of an instance only how it stands now is reported, so that one that
// changes to and fro costs no more than one that changes once; and of many at once, a batch after the other.
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
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// Config says who may register, and where that goes.
type Config struct {
	// Server is where machines are registered; nil where there is no mcp-server.
	Server machinev1.RegistryServiceClient
	// Name is what this discovery is called there.
	Name string
	// Who tells which machine calls. Nil believes what each says of itself.
	Who     func(context.Context) (*Caller, error)
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Caller is a machine by its certificate.
type Caller struct {
	Namespace, ServiceAccount, Enrolment string
	// ShutOut tells whether it was revoked since.
	ShutOut func() bool
}

// Service is the MachineService of a discovery.
type Service struct {
	machinev1.UnimplementedMachineServiceServer

	cfg     Config
	mesh    atomic.Pointer[mesh.Mesh] // nil until there is a configuration
	begun   chan struct{}             // closed when there is
	book    *book
	metrics *metrics
	done    chan struct{}
	inside  *crowd
}

// unconfigured is why there is no session before there is a configuration.
const unconfigured = "discovery has no configuration yet: its /readyz says what it waits for"

// New returns a service.
func New(cfg Config) *Service {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{cfg: cfg, begun: make(chan struct{}), done: make(chan struct{}), inside: newCrowd()}
	s.book = newBook(s.group)
	s.metrics = newMetrics(cfg.Metrics, s.book)
	if cfg.Server == nil {
		s.book.lost("this discovery follows no mcp-server, which alone keeps WorkloadEntries: write one by hand, or register at another discovery", false)
	} else {
		s.book.lost(unconfigured, true)
	}
	return s
}

// AddTo adds the service to a gRPC server.
func (s *Service) AddTo(r grpc.ServiceRegistrar) { machinev1.RegisterMachineServiceServer(r, s) }

// Shutdown ends the streams. It must be called once.
func (s *Service) Shutdown() { close(s.done) }

const (
	// The pauses before another session is tried grow from the first to the last, which is short beside the grace period.
	firstPause = 250 * time.Millisecond
	lastPause  = 5 * time.Second
	// retryEvery is how often what was refused is tried again, beside when something changes that it may have been refused for.
	retryEvery = 30 * time.Second
)

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
				s.book.retry()
			case <-ctx.Done():
				return
			}
		}
	}()
	err := s.sessions(ctx)
	<-stop
	return err
}

// What an entry that was registered says of whom it is.
const (
	groupAnnotation   = "istio.io/autoRegistrationGroup"
	machineAnnotation = "mesh.pgmesh.io/machine"
)

// Follow takes in a new state of the mesh, to which a step has led.
func (s *Service) Follow(m *mesh.Mesh, step configstore.Step) {
	if s.mesh.Swap(m) == nil {
		s.book.configured()
		close(s.begun)
	}
	for _, e := range step.Edits(mesh.WorkloadGroup) {
		r := cmp.Or(e.After, e.Before)
		s.book.groupChanged(r.Namespace, r.Name)
	}
	for _, e := range step.Edits(mesh.WorkloadEntry) {
		if r := e.After; r == nil {
			s.book.entryGone(e.Before.Namespace, e.Before.Name)
		} else {
			s.book.entryMade(refusedKey{r.Namespace, r.Annotations[groupAnnotation], r.Annotations[machineAnnotation]})
		}
	}
}

// group is what has to be known here of a WorkloadGroup.
type group struct {
	probe   *machinev1.Probe // nil for none
	account string           // the service account of its machines
}

// group is the WorkloadGroup of a name; nil if there is none, or it has not come here yet.
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
