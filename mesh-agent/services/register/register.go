// Package register keeps a machine's services registered with discovery, and reports their health.
//
// The stream to discovery is the registration: while it lives, the machine is in the mesh. Whenever
// it ends, another is opened with a full description. Each stream has a later time than all before
// it, those of earlier agents too, so discovery replicas agree on which one counts.
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

	"github.com/pgmesh/pgmesh/mesh-agent/services/probe"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// Options say what to register.
type Options struct {
	// Discovery is the connection to discovery.
	Discovery grpc.ClientConnInterface
	// Retry returns a channel that is closed when what was refused may be let in: there is another
	// connection to discovery, which may be to another one or show another certificate, or the machine
	// is a member of the mesh again. It may be nil.
	Retry func() <-chan struct{}
	// Folder keeps, over restarts, when the last stream began and which services are healthy; ""
	// keeps nothing.
	Folder string
	// Machine describes the machine, without Since and Services.
	Machine  *machinev1.Machine
	Services []Service
	// AllowExec permits exec probes from WorkloadGroups: whoever writes a group then runs commands
	// on this machine.
	AllowExec bool
	Log       *slog.Logger
	Metrics   prometheus.Registerer
}

// Service is a service of the machine.
type Service struct {
	Group  string // the WorkloadGroup that describes it
	Ports  map[string]uint32
	Labels map[string]string
	Weight uint32 // 0 for the group's
	// Readiness is its health probe; nil for the group's.
	Readiness *machinev1.Probe
	// Liveness is its liveness probe, and Action the command to run when that fails; nil for none.
	Liveness *machinev1.Probe
	Action   []string
}

// Agent registers a machine.
type Agent struct {
	o         Options
	since     sinceClock
	reportDue chan struct{}   // has an element when the health of a service changed, for the stream
	saveDue   chan struct{}   // likewise, for the health file
	leaving   chan chan error // Leave sends where it waits for its result
	done      chan struct{}   // closed when Run returns

	mu           sync.Mutex
	services     map[string]*service // by group; each service's changing fields are guarded by mu
	disconnected string              // why there is no stream; "" if there is one
	drain        *drain              // nil unless the machine drains
	returning    *returning          // nil unless mcp-server may not know yet that it does not drain any more
	older        bool                // the discovery of the stream does not say what mcp-server knows
}

// New returns an agent, with the health that the last one saved.
func New(o Options) *Agent {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &Agent{o: o, since: sinceClock{folder: o.Folder}, reportDue: make(chan struct{}, 1), saveDue: make(chan struct{}, 1), leaving: make(chan chan error), done: make(chan struct{}), services: map[string]*service{}, disconnected: "not connected yet"}
	for _, s := range o.Services {
		a.services[s.Group] = &service{Service: s}
	}
	a.restoreHealth()
	if o.Metrics != nil {
		o.Metrics.MustRegister(collector{a})
	}
	return a
}

// Run keeps the machine registered until the context ends or the machine has left.
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
	probes.Go(func() { a.saveHealth(ctx) })
	err := a.streams(ctx)
	if err != nil {
		return err
	}
	cancel()
	probes.Wait()
	return a.removeHealthFile() // the machine has left
}

// Waits says why Run is not called yet.
func (a *Agent) Waits(why string) { a.setDisconnected(why) }

// keepAlive runs the liveness probe of a service, and its action when that fails.
func (a *Agent) keepAlive(ctx context.Context, s *service) {
	probe.Liveness{Service: s.Group, Probe: s.Liveness, Action: s.Action, Log: a.o.Log, OnAction: func(why, _ error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		s.restarts++
		s.livenessFailure = why.Error()
	}}.Run(ctx)
}

// Leave removes the machine's entries at once, waits until they are gone, and ends Run. It does
// nothing for a machine that has left. Envoy must not get requests any more: see Withdraw.
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

// description describes the machine as it is now.
func (a *Agent) description(begun time.Time) *machinev1.Machine {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := proto.CloneOf(a.o.Machine)
	m.Since, m.Follows = begun.UnixNano(), true
	for _, each := range a.o.Services {
		s := a.services[each.Group].description()
		s.Health, s.Detail = a.told(s.Health, s.Detail)
		m.Services = append(m.Services, s)
	}
	return m
}
