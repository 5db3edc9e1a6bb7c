package relay

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/mesh-agent/status"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/wire"
)

// State says where Envoy's configuration comes from.
type State string

// Waiting: Envoy has nothing yet. Synced: discovery answers. LastGood: no discovery answers, and
// Envoy is served what was stored. TurnedAway: discovery refuses the proxy, as one that was revoked,
// and Envoy goes on with what it has.
const (
	Waiting    State = "waiting"
	Synced     State = "synced"
	LastGood   State = "last-good"
	TurnedAway State = "turned-away"
)

// Status describes the configuration that Envoy is served.
type Status struct {
	State State
	Since time.Time
	// Refusal is what Envoy refused last and why, or empty.
	Refusal string
	// Away is why discovery has refused the proxy last, empty once it answers.
	Away string
}

// Status returns the present status.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Report says for the status of the agent where Envoy's configuration comes from.
func (s *Server) Report() status.XDS {
	now, kept := s.Status(), s.Kept.Summary()
	out := status.XDS{State: string(now.State), Since: now.Since, Resources: kept.Resources, Kept: kept.At, LastNACK: oneLine(now.Refusal)}
	switch {
	case now.Away != "":
		out.Trouble = "discovery refuses this proxy, and Envoy goes on with what it has: " + oneLine(now.Away)
	case now.State == LastGood:
		out.Trouble = "no discovery answers, and Envoy runs with what it accepted last, as of " + kept.At.Format(time.RFC3339)
	case kept.Failed != nil:
		out.Trouble = "what Envoy accepts cannot be kept for when discovery is away; make room, and start the agent anew: " + kept.Failed.Error()
	}
	if refused := s.refusing(); refused != "" && out.Trouble != "" {
		out.Trouble += "; " + refused
	} else if refused != "" {
		out.Trouble = refused
	}
	return out
}

// refusing says what Envoy refuses now, "" for nothing.
func (s *Server) refusing() string {
	s.mu.Lock()
	now := s.refusals
	s.mu.Unlock()
	if now == nil {
		return ""
	}
	return now.trouble()
}

// markSynced records that discovery answers Envoy.
func (s *Server) markSynced() {
	if s.setState(Synced) == LastGood {
		s.Log.Info("discovery answers again: Envoy has its configuration from there")
	}
}

// markLastGood records that Envoy is served the last good configuration.
func (s *Server) markLastGood() {
	if s.setState(LastGood) == LastGood {
		return
	}
	kept := s.Kept.Summary()
	reason := "discovery does not answer"
	if now, _ := s.Discovery.Status(); !now.Connected && now.Error != nil {
		reason = now.Error.Error()
	}
	s.Log.Warn("Envoy starts with the last good configuration, and has no other until a discovery answers",
		"reason", reason, "accepted", kept.At.UTC().Format(time.RFC3339), "resources", kept.Resources)
}

// markTurnedAway records that discovery refuses the proxy. What Envoy has stays where it is from.
func (s *Server) markTurnedAway(why string) {
	s.mu.Lock()
	s.status.Away = why
	lastGood := s.status.State == LastGood
	s.mu.Unlock()
	if !lastGood {
		s.setState(TurnedAway)
	}
}

func (s *Server) setState(now State) (before State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now == Synced {
		s.status.Away = ""
	}
	if before = s.status.State; before != now {
		s.status.State, s.status.Since = now, time.Now()
		s.metrics.serves(now)
	}
	return before
}

// refused records a NACK. Discovery receives it too, and says there what to do about it.
func (s *Server) refused(r *wire.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Refusal = r.TypeURL + ": " + r.Reason
	s.metrics.refused()
}

// metrics may be nil, which records nothing.
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
			Name: "pgmesh_mesh_agent_serving_last_good", Help: "1 while Envoy has its configuration from what this machine has kept, for no discovery answers.",
		}),
		refusals: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgmesh_mesh_agent_refusals_total", Help: "Responses of discovery that Envoy refused.",
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
