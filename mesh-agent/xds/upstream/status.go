package upstream

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/mesh-agent/status"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// Status describes the connection.
type Status struct {
	// Connected reports whether there is a connection. Address is then the replica's, and Discovery
	// its name in its certificate.
	Connected          bool
	Address, Discovery string
	// Since is when Connected last changed.
	Since time.Time
	// First is when this agent made its first connection.
	First time.Time
	// Error is the last error, if any, and ErrorAt when it occurred.
	Error   error
	ErrorAt time.Time
	// Revoked says why this machine is no member of the mesh any more; nil while discovery has not
	// said so of its present certificate.
	Revoked *identityv1.Revocation
}

func (s *Status) connected(l *link) {
	now := time.Now()
	if s.First.IsZero() {
		s.First = now
	}
	s.Connected, s.Address, s.Discovery, s.Since = true, l.target.String(), l.name, now
}

func (s *Status) disconnected(reason error) {
	now := time.Now()
	s.Connected, s.Since, s.Error, s.ErrorAt = false, now, reason, now
}

// Status returns the present status, and a channel that is closed when it changes.
func (u *Upstream) Status() (Status, <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.status, u.changed
}

// Retry returns a channel that is closed when what was refused may be let in: there is another
// connection than now, or this machine is a member of the mesh again.
func (u *Upstream) Retry() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.again
}

// retry has those try again that were refused. The caller holds u.mu.
func (u *Upstream) retry() {
	close(u.again)
	u.again = make(chan struct{})
}

// Report describes the connection for the status of the agent.
func (u *Upstream) Report() status.Discovery {
	now, _ := u.Status()
	d := status.Discovery{Addresses: u.Addresses(), Since: now.Since, LastFail: now.ErrorAt}
	if now.Error != nil {
		d.LastError = now.Error.Error()
	}
	switch {
	case now.Connected:
		d.Replica, d.Name = now.Address, now.Discovery
	case d.LastError != "":
		d.Trouble = "none can be reached, and Envoy goes on with what it has: " + d.LastError
	default:
		d.Trouble = "not connected yet"
	}
	return d
}

// Addresses returns the configured addresses of discovery.
func (u *Upstream) Addresses() []string { return u.options.Addresses }

// metrics may be nil, which records nothing.
type metrics struct {
	up         prometheus.Gauge
	reconnects prometheus.Counter
	failures   prometheus.Counter
	shutOut    prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	if r == nil {
		return nil
	}
	m := &metrics{
		up: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pgmesh_mesh_agent_discovery_connected", Help: "1 while there is a connection to a discovery.",
		}),
		reconnects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgmesh_mesh_agent_discovery_reconnects_total", Help: "Connections to a discovery that were made after the first: it went away, another took its place, or the certificate was renewed.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgmesh_mesh_agent_discovery_failures_total", Help: "How often every discovery was tried and none could be connected to.",
		}),
	}
	m.shutOut = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pgmesh_mesh_agent_revoked", Help: "1 while discovery refuses this machine because it was revoked.",
	})
	r.MustRegister(m.up, m.reconnects, m.failures, m.shutOut)
	return m
}

func (m *metrics) connected(again bool) {
	if m == nil {
		return
	}
	m.up.Set(1)
	if again {
		m.reconnects.Inc()
	}
}

func (m *metrics) disconnected() {
	if m != nil {
		m.up.Set(0)
	}
}

func (m *metrics) revoked(is bool) {
	switch {
	case m == nil:
	case is:
		m.shutOut.Set(1)
	default:
		m.shutOut.Set(0)
	}
}

func (m *metrics) connectFailed() {
	if m != nil {
		m.failures.Inc()
	}
}
