package register

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/mesh-agent/status"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

func (a *Agent) reports() []*machinev1.HealthReport {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]*machinev1.HealthReport, len(a.o.Services))
	for i, s := range a.o.Services {
		all[i] = a.services[s.Group].report()
		all[i].Health, all[i].Detail = a.told(all[i].Health, all[i].Detail)
	}
	return all
}

func (a *Agent) connected() {
	a.setDisconnected("")
	a.mu.Lock()
	defer a.mu.Unlock()
	a.older = false
}

func (a *Agent) setDisconnected(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.disconnected = why; why != "" {
		a.undoDrain(a.drain, errNotTold)
		a.returning.fail(why, "this machine is connected to be registered again")
	}
}

// handle applies discovery's answer about a service.
func (a *Agent) handle(answer *machinev1.RegisterResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch message := answer.GetMessage().(type) {
	case *machinev1.RegisterResponse_Draining:
		a.drained()
	case *machinev1.RegisterResponse_Serving:
		a.returned()
	case *machinev1.RegisterResponse_Untold:
		a.untold(message.Untold.GetReason())
	case *machinev1.RegisterResponse_Registered:
		r := message.Registered
		if a.older = !r.GetFollows(); a.older {
			a.returned()
		}
		if s := a.services[r.GetGroup()]; s != nil {
			s.entry, s.refused, s.waiting = r.GetEntry(), "", false
			s.setGroupProbe(r.GetProbe())
			a.logOnce(s, "registered "+s.entry, func() { a.o.Log.Info("a service of this machine is registered", "service", s.Group, "entry", s.entry) })
		}
	case *machinev1.RegisterResponse_Refused:
		r := message.Refused
		if s := a.services[r.GetGroup()]; s != nil {
			s.entry, s.refused, s.waiting = "", r.GetReason(), r.GetPassing()
			a.logOnce(s, s.refused, func() { a.logRefusal(s) })
		}
	}
}

// logOnce logs the state of a service, unless that was logged last.
func (a *Agent) logOnce(s *service, what string, log func()) {
	if s.logged != what {
		s.logged = what
		log()
	}
}

func (a *Agent) logRefusal(s *service) {
	if s.waiting {
		a.o.Log.Info("a service of this machine waits to be registered", "service", s.Group, "reason", s.refused)
		return
	}
	a.o.Log.Error("a service of this machine is not registered; it is tried again", "service", s.Group, "reason", s.refused)
}

// healthNames are the names of health states in output.
var healthNames = map[machinev1.Health]string{
	machinev1.Health_HEALTH_UNSPECIFIED: "unknown", machinev1.Health_HEALTH_HEALTHY: "healthy", machinev1.Health_HEALTH_UNHEALTHY: "unhealthy",
	machinev1.Health_HEALTH_DRAINING: "draining",
}

// Status describes the registration of the services.
func (a *Agent) Status() status.Registration {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := status.Registration{Services: []status.Service{}}
	if a.disconnected != "" {
		out.Trouble = "the machine is not connected to be registered: " + a.disconnected
	}
	if err := a.returning.failure(); err != nil {
		if out.Trouble != "" {
			out.Trouble += "; "
		}
		out.Trouble += "the mesh is not told yet that this machine is no longer drained: " + err.Error()
	}
	for _, each := range a.o.Services {
		s := a.services[each.Group]
		shown := status.Service{Group: s.Group, Entry: s.entry, Refused: s.refused, Health: s.healthName(), Detail: s.detail, Since: s.since, Liveness: s.livenessFailure, Restarts: s.restarts}
		switch {
		case s.refused != "":
			shown.Trouble = "it is not registered: " + s.refused
		case s.health == machinev1.Health_HEALTH_UNHEALTHY:
			shown.Trouble = "it is not well: " + s.detail
		}
		if a.drain != nil {
			shown.Health, shown.Detail = healthNames[machinev1.Health_HEALTH_DRAINING], a.drain.detail
		}
		out.Services = append(out.Services, shown)
	}
	return out
}

// Registered reports whether any service has an entry, as far as the agent knows.
func (a *Agent) Registered() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.services {
		if s.entry != "" {
			return true
		}
	}
	return false
}

// healthName names the health of the service. A registered one without a probe counts as healthy.
func (s *service) healthName() string {
	if s.activeProbe() == nil && s.entry != "" {
		return healthNames[machinev1.Health_HEALTH_HEALTHY]
	}
	return healthNames[s.health]
}

var (
	registeredDesc = prometheus.NewDesc("pgmesh_mesh_agent_registered", "1 while the service has its WorkloadEntry.", []string{"service"}, nil)
	healthyDesc    = prometheus.NewDesc("pgmesh_mesh_agent_service_healthy", "1 while the service is well by its probe, or has none.", []string{"service"}, nil)
	actionsDesc    = prometheus.NewDesc("pgmesh_mesh_agent_liveness_actions_total", "How often the action of a service was taken that had stopped to live.", []string{"service"}, nil)
)

// collector exports the status of services as metrics.
type collector struct{ of *Agent }

// Describe lists the metrics.
func (collector) Describe(to chan<- *prometheus.Desc) {
	to <- registeredDesc
	to <- healthyDesc
	to <- actionsDesc
}

// Collect reads the metrics from the status.
func (c collector) Collect(to chan<- prometheus.Metric) {
	one := func(yes bool) float64 {
		if yes {
			return 1
		}
		return 0
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	for group, s := range c.of.services {
		to <- prometheus.MustNewConstMetric(registeredDesc, prometheus.GaugeValue, one(s.entry != ""), group)
		to <- prometheus.MustNewConstMetric(healthyDesc, prometheus.GaugeValue, one(s.healthName() == "healthy"), group)
		to <- prometheus.MustNewConstMetric(actionsDesc, prometheus.CounterValue, float64(s.restarts), group)
	}
}
