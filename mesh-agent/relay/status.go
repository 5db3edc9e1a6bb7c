package relay

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/mesh-agent/wire"
)

// State is where Envoy's configuration is from.
type State string

// The states: Envoy has nothing yet; it has what discovery says; it has what was kept, for no discovery answers.
const (
	Waiting  State = "waiting"
	Synced   State = "synced"
	LastGood State = "last-good"
)

// Status is how it stands.
type Status struct {
	State State
	Since time.Time
	// Refusal is what Envoy refused last, and why; empty if it has refused nothing.
	Refusal string
}

// Status is how it stands now.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// answered notes that discovery answers Envoy.
func (s *Server) answered() {
	if s.become(Synced) == LastGood {
		s.Log.Info("discovery answers again: Envoy has its configuration from there")
	}
}

// served notes that Envoy is answered from what was kept.
func (s *Server) served() {
	if s.become(LastGood) == LastGood {
		return
	}
	kept := s.Kept.Summary()
	reason := "discovery does not answer"
	if status, _ := s.Discovery.Status(); !status.Connected && status.Error != nil {
		reason = status.Error.Error()
	}
	s.Log.Warn("Envoy starts with the last good configuration, and has no other until a discovery answers",
		"reason", reason, "accepted", kept.At.UTC().Format(time.RFC3339), "resources", kept.Resources)
}

func (s *Server) become(now State) (before State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before = s.status.State; before != now {
		s.status.State, s.status.Since = now, time.Now()
		s.metrics.serves(now)
	}
	return before
}

// refused notes what Envoy does not take. Discovery is told the same, and what to do about it is told there.
func (s *Server) refused(r *wire.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Refusal = r.TypeURL + ": " + r.Reason
	s.metrics.refused()
}

// metrics are nil if nobody wants them.
type metrics struct {
	lastGood prometheus.Gauge
	refusals prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	if r == nil {
		return nil
	}
	m := &metrics{
		lastGood: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "serving_last_good", Help: "1 while Envoy has its configuration from what this machine has kept, for no discovery answers.",
		}),
		refusals: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "refusals_total", Help: "Responses of discovery that Envoy refused.",
		}),
	}
	r.MustRegister(m.lastGood, m.refusals)
	return m
}

func (m *metrics) serves(now State) {
	switch {
	case m == nil:
	case now == LastGood:
		m.lastGood.Set(1)
	default:
		m.lastGood.Set(0)
	}
}

func (m *metrics) refused() {
	if m != nil {
		m.refusals.Inc()
	}
}
