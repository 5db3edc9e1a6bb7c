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
	}
	return all
}

func (a *Agent) connected() { a.lost("") }

func (a *Agent) lost(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away = why
}

// heard takes in what discovery says of a service.
func (a *Agent) heard(answer *machinev1.RegisterResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch message := answer.GetMessage().(type) {
	case *machinev1.RegisterResponse_Registered:
		r := message.Registered
		if s := a.services[r.GetGroup()]; s != nil {
			s.entry, s.refused, s.passing = r.GetEntry(), "", false
			s.learn(r.GetProbe())
			a.say(s, "registered "+s.entry, func() { a.o.Log.Info("a service of this machine is registered", "service", s.Group, "entry", s.entry) })
		}
	case *machinev1.RegisterResponse_Refused:
		r := message.Refused
		if s := a.services[r.GetGroup()]; s != nil {
			s.entry, s.refused, s.passing = "", r.GetReason(), r.GetPassing()
			a.say(s, s.refused, func() { a.tellRefused(s) })
		}
	}
}

// say logs what stands with a service, once.
func (a *Agent) say(s *service, what string, log func()) {
	if s.said != what {
		s.said = what
		log()
	}
}

func (a *Agent) tellRefused(s *service) {
	if s.passing {
		a.o.Log.Info("a service of this machine waits to be registered", "service", s.Group, "because", s.refused)
		return
	}
	a.o.Log.Error("a service of this machine is not registered; it is tried again", "service", s.Group, "because", s.refused)
}

// words are what health is called.
var words = map[machinev1.Health]string{
	machinev1.Health_HEALTH_UNSPECIFIED: "unknown", machinev1.Health_HEALTH_HEALTHY: "healthy", machinev1.Health_HEALTH_UNHEALTHY: "unhealthy",
}

// Status tells how the services are registered.
func (a *Agent) Status() status.Registration {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := status.Registration{Services: []status.Service{}}
	if a.away != "" {
		out.Trouble = "the machine is not connected to be registered: " + a.away
	}
	for _, each := range a.o.Services {
		s := a.services[each.Group]
		shown := status.Service{Group: s.Group, Entry: s.entry, Refused: s.refused, Health: s.word(), Detail: s.detail, Since: s.since, Liveness: s.died, Restarts: s.restarts}
		switch {
		case s.refused != "":
			shown.Trouble = "it is not registered: " + s.refused
		case s.health == machinev1.Health_HEALTH_UNHEALTHY:
			shown.Trouble = "it is not well: " + s.detail
		}
		out.Services = append(out.Services, shown)
	}
	return out
}

// Registered tells whether any service has an entry, as far as is known.
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

// word is how the service is. One that nobody asks is well.
func (s *service) word() string {
	if s.probed() == nil && s.entry != "" {
		return words[machinev1.Health_HEALTH_HEALTHY]
	}
	return words[s.health]
}

var (
	registeredDesc = prometheus.NewDesc("registered", "1 while the service has its WorkloadEntry.", []string{"service"}, nil)
	healthyDesc    = prometheus.NewDesc("service_healthy", "1 while the service is well by its probe, or has none.", []string{"service"}, nil)
	actionsDesc    = prometheus.NewDesc("liveness_actions_total", "How often the action of a service was taken that had stopped to live.", []string{"service"}, nil)
)

// collector makes metrics of how the services are.
type collector struct{ of *Agent }

// Describe lists the metrics.
func (collector) Describe(to chan<- *prometheus.Desc) {
	to <- registeredDesc
	to <- healthyDesc
	to <- actionsDesc
}

// Collect reads them off the status.
func (c collector) Collect(to chan<- prometheus.Metric) {
	one := func(yes bool) float64 {
		if yes {
			return 1
		}
		return 0
	}
	for _, s := range c.of.Status().Services {
		to <- prometheus.MustNewConstMetric(registeredDesc, prometheus.GaugeValue, one(s.Entry != ""), s.Group)
		to <- prometheus.MustNewConstMetric(healthyDesc, prometheus.GaugeValue, one(s.Health == "healthy"), s.Group)
		to <- prometheus.MustNewConstMetric(actionsDesc, prometheus.CounterValue, float64(s.Restarts), s.Group)
	}
}
