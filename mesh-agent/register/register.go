// Package register has discovery register the services of a machine, and tells it how they are.
//
// A stream to discovery is what makes the machine a part of the mesh: while it lives, the machine is there. It is opened again whenever it ends,
// with all there is to tell. Each is later than those before it, also those of earlier lives of the agent, so that it counts wherever it comes to.
package register

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/mesh-agent/probe"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// Options say what is registered.
type Options struct {
	// Discovery is the connection to it.
	Discovery grpc.ClientConnInterface
	// Folder is where it is kept over restarts when the last stream was begun, and which services are well; "" is nowhere.
	Folder string
	// Machine describes the machine, but for since when, and its services.
	Machine  *machinev1.Machine
	Services []Service
	// AllowExec lets commands run that a WorkloadGroup asks for: whoever writes that runs them on this machine.
	AllowExec bool
	Log       *slog.Logger
	Metrics   prometheus.Registerer
}

// Service is a service of the machine.
type Service struct {
	Group  string // the WorkloadGroup that describes it
	Ports  map[string]uint32
	Labels map[string]string
	Weight uint32 // 0: that of the group
	// Readiness is how it is asked whether it is well; nil as its group says.
	Readiness *machinev1.Probe
	// Liveness is how it is asked whether it lives, and Action what is done if it does not; nil for not at all.
	Liveness *machinev1.Probe
	Action   []string
}

// Agent registers a machine.
type Agent struct {
	o       Options
	since   since
	changed chan struct{} // receives when a service is otherwise than it was
	better  chan struct{} // receives then, too, for what the next agent is to know
	leaving chan chan error
	done    chan struct{} // closed when it registers no more

	mu       sync.Mutex
	services map[string]*service // by group
	away     string              // why the machine is not registered at all; "" if it may be
}

// New returns an agent.
func New(o Options) *Agent {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &Agent{o: o, since: since{folder: o.Folder}, changed: make(chan struct{}, 1), better: make(chan struct{}, 1), leaving: make(chan chan error), done: make(chan struct{}), services: map[string]*service{}, away: "not connected yet"}
	for _, s := range o.Services {
		a.services[s.Group] = &service{Service: s}
	}
	a.inherit()
	if o.Metrics != nil {
		o.Metrics.MustRegister(collector{a})
	}
	return a
}

// Run keeps the machine registered until the context ends, or it has left.
func (a *Agent) Run(ctx context.Context) error {
	defer close(a.done)
	ctx, cancel := context.WithCancel(ctx)
	var probes sync.WaitGroup
	defer probes.Wait()
	defer cancel()
	for _, group := range slices.Sorted(maps.Keys(a.services)) {
		s := a.services[group]
		if s.Liveness != nil {
			probes.Go(func() { a.keepAlive(ctx, s) })
		}
		probes.Go(func() { a.watch(ctx, s) })
	}
	probes.Go(func() { a.bequeath(ctx) })
	err := a.streams(ctx)
	if err != nil {
		return err
	}
	cancel()
	probes.Wait()
	return a.forgetWell() // the machine has left
}

// keepAlive takes the action of a service that has stopped to live.
func (a *Agent) keepAlive(ctx context.Context, s *service) {
	probe.Liveness{Service: s.Group, Probe: s.Liveness, Action: s.Action, Log: a.o.Log, Acted: func(why, _ error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		s.restarts++
		s.died = why.Error()
	}}.Run(ctx)
}

// Leave has the machine's entries go at once, and waits until they have. Run ends then. Who has left has nothing to do.
func (a *Agent) Leave(ctx context.Context) error {
	left := make(chan error, 1)
	select {
	case a.leaving <- left:
	case <-a.done:
		return nil
	case <-ctx.Done():
		return errNotConnected
	}
	select {
	case err := <-left:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// description is the machine as it is now.
func (a *Agent) description(begun time.Time) *machinev1.Machine {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := proto.CloneOf(a.o.Machine)
	m.Since = begun.UnixNano()
	for _, each := range a.o.Services {
		m.Services = append(m.Services, a.services[each.Group].description())
	}
	return m
}
