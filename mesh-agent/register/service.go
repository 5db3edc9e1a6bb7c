package register

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/mesh-agent/probe"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// service is a service as it stands. The lock of its agent is that of all that changes.
type service struct {
	Service

	entry   string
	refused string
	passing bool
	said    string // what was logged of it last

	told   *machinev1.Probe // of its group
	learnt chan struct{}    // closed when the group's probe is another

	health machinev1.Health
	detail string
	since  time.Time // of the health
	// inherited tells that the health is from the agent before, and the service's group is not heard of yet.
	inherited bool
	restarts  int
	died      string
}

// probed is how the service is asked, and nil for not at all.
func (s *service) probed() *machinev1.Probe {
	if s.Readiness != nil {
		return s.Readiness
	}
	return s.told
}

// description is the service as discovery is told of it.
func (s *service) description() *machinev1.Service {
	return &machinev1.Service{
		Group: s.Group, Ports: s.Ports, Labels: s.Labels, Weight: s.Weight, Health: s.health, Detail: s.detail, Probed: s.Readiness != nil,
	}
}

// report is how the service is.
func (s *service) report() *machinev1.HealthReport {
	return &machinev1.HealthReport{Group: s.Group, Health: s.health, Detail: s.detail}
}

const noExec = "its WorkloadGroup has it asked by a command, and this machine runs those of its own file alone: " +
	"allow it (--allow-exec-probes), or give the service a readiness probe in the agent's file"

// watch asks a service how it is, by whatever probe it has at a time, until the context ends.
func (a *Agent) watch(ctx context.Context, s *service) {
	for ctx.Err() == nil {
		how, learnt := a.probeOf(s)
		now, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			a.ask(now, s, how)
		}()
		select {
		case <-learnt:
		case <-ctx.Done():
		}
		stop()
		<-done
	}
}

func (a *Agent) ask(ctx context.Context, s *service, how *machinev1.Probe) {
	switch {
	case how == nil && a.inherits(s): // who knows how it is asked
	case how == nil:
		a.found(s, machinev1.Health_HEALTH_UNSPECIFIED, "") // nobody asks, and discovery knows that
	case how.GetExec() != nil && s.Readiness == nil && !a.o.AllowExec:
		a.found(s, machinev1.Health_HEALTH_UNHEALTHY, noExec)
	default:
		probe.Watch(ctx, how, func(wrong error) {
			if wrong != nil {
				a.found(s, machinev1.Health_HEALTH_UNHEALTHY, wrong.Error())
				return
			}
			a.found(s, machinev1.Health_HEALTH_HEALTHY, "")
		})
	}
}

// probeOf is the probe of a service, and what is closed when it has another.
func (a *Agent) probeOf(s *service) (*machinev1.Probe, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.learnt == nil {
		s.learnt = make(chan struct{})
	}
	return s.probed(), s.learnt
}

func (a *Agent) inherits(s *service) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return s.inherited
}

// learn takes in the probe of a service's group.
func (s *service) learn(p *machinev1.Probe) {
	inherited := s.inherited
	s.inherited = false
	if proto.Equal(s.told, p) && !inherited {
		return
	}
	s.told = p
	if s.Readiness == nil && s.learnt != nil {
		close(s.learnt)
		s.learnt = nil
	}
}

// found takes in how a service is.
func (a *Agent) found(s *service, health machinev1.Health, detail string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.health == health && s.detail == detail {
		return
	}
	if health != s.health || s.since.IsZero() {
		s.since = time.Now()
	}
	s.health, s.detail = health, detail
	switch health {
	case machinev1.Health_HEALTH_UNHEALTHY:
		a.o.Log.Warn("a service is not well, and is sent no requests", "service", s.Group, "because", detail)
	case machinev1.Health_HEALTH_HEALTHY:
		a.o.Log.Info("a service is well", "service", s.Group)
	}
	for _, wake := range []chan struct{}{a.changed, a.better} {
		select {
		case wake <- struct{}{}:
		default: // who is woken looks at all
		}
	}
}
