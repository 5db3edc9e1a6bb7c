package register

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/mesh-agent/services/probe"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// service is a service and its state. Agent.mu guards everything that changes.
type service struct {
	Service

	entry   string
	refused string
	waiting bool
	logged  string // what was last logged about it

	groupProbe   *machinev1.Probe // the group's probe
	probeChanged chan struct{}    // closed and cleared when the active probe changes

	health machinev1.Health
	detail string
	since  time.Time // time of the last change of health
	// inherited reports whether the health comes from the agent before, and the service's group is
	// not known yet.
	inherited       bool
	restarts        int
	livenessFailure string
}

// activeProbe returns the probe in use, nil for none.
func (s *service) activeProbe() *machinev1.Probe {
	if s.Readiness != nil {
		return s.Readiness
	}
	return s.groupProbe
}

// description describes the service for discovery.
func (s *service) description() *machinev1.Service {
	return &machinev1.Service{
		Group: s.Group, Ports: s.Ports, Labels: s.Labels, Weight: s.Weight, Health: s.health, Detail: s.detail, Probed: s.Readiness != nil,
	}
}

// report is the health of the service for discovery.
func (s *service) report() *machinev1.HealthReport {
	return &machinev1.HealthReport{Group: s.Group, Health: s.health, Detail: s.detail}
}

const noExec = "its WorkloadGroup has it asked by a command, and this machine runs those of its own file alone: " +
	"allow it (--allow-exec-probes), or give the service a readiness probe in the agent's file"

// watch runs the active probe of a service until the context ends, and restarts it when the probe
// changes.
func (a *Agent) watch(ctx context.Context, s *service) {
	for ctx.Err() == nil {
		p, changed := a.probeOf(s)
		now, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			a.runProbe(now, s, p)
		}()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		stop()
		<-done
	}
}

func (a *Agent) runProbe(ctx context.Context, s *service, p *machinev1.Probe) {
	switch {
	case p == nil && a.isInherited(s): // keep the saved health until the group's probe is known
	case p == nil:
		a.setHealth(s, machinev1.Health_HEALTH_UNSPECIFIED, "") // without a probe, discovery decides
	case p.GetExec() != nil && s.Readiness == nil && !a.o.AllowExec:
		a.setHealth(s, machinev1.Health_HEALTH_UNHEALTHY, noExec)
	default:
		probe.Watch(ctx, p, func(wrong error) {
			if wrong != nil {
				a.setHealth(s, machinev1.Health_HEALTH_UNHEALTHY, wrong.Error())
				return
			}
			a.setHealth(s, machinev1.Health_HEALTH_HEALTHY, "")
		})
	}
}

// probeOf returns the active probe, and a channel that is closed when it changes.
func (a *Agent) probeOf(s *service) (*machinev1.Probe, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.probeChanged == nil {
		s.probeChanged = make(chan struct{})
	}
	return s.activeProbe(), s.probeChanged
}

func (a *Agent) isInherited(s *service) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return s.inherited
}

// setGroupProbe sets the probe of the service's group. The caller holds Agent.mu.
func (s *service) setGroupProbe(p *machinev1.Probe) {
	inherited := s.inherited
	s.inherited = false
	if proto.Equal(s.groupProbe, p) && !inherited {
		return
	}
	s.groupProbe = p
	if s.Readiness == nil && s.probeChanged != nil {
		close(s.probeChanged)
		s.probeChanged = nil
	}
}

// setHealth records the health of a service, and wakes the stream and the saver if it changed.
func (a *Agent) setHealth(s *service, health machinev1.Health, detail string) {
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
		a.o.Log.Warn("a service is unhealthy, and gets no requests", "service", s.Group, "reason", detail)
	case machinev1.Health_HEALTH_HEALTHY:
		a.o.Log.Info("a service is healthy", "service", s.Group)
	}
	wake(a.reportDue)
	wake(a.saveDue)
}

func wake(due chan struct{}) {
	select {
	case due <- struct{}{}:
	default: // the receiver looks at all services anyway
	}
}
