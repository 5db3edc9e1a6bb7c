package upstream

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Status is how it stands with the connection.
type Status struct {
	// Connected tells whether there is one. Then Address is the replica's, and Discovery what it is called by its certificate.
	Connected          bool
	Address, Discovery string
	// Since is when that began to be so.
	Since time.Time
	// First is when the first connection was made, of this start of the agent.
	First time.Time
	// Error is what went wrong last, if anything did, and ErrorAt when.
	Error   error
	ErrorAt time.Time
}

func (s *Status) connected(l *link) {
	now := time.Now()
	if s.First.IsZero() {
		s.First = now
	}
	s.Connected, s.Address, s.Discovery, s.Since = true, l.target.String(), l.name, now
}

func (s *Status) away(reason error) {
	now := time.Now()
	s.Connected, s.Since, s.Error, s.ErrorAt = false, now, reason, now
}

// Status is how it stands with the connection now, and what is closed when that is not so any more.
func (u *Upstream) Status() (Status, <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.status, u.changed
}

// Addresses are where discovery was said to be.
func (u *Upstream) Addresses() []string { return u.options.Addresses }

// metrics are nil if nobody wants them.
type metrics struct {
	up         prometheus.Gauge
	reconnects prometheus.Counter
	failures   prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	if r == nil {
		return nil
	}
	m := &metrics{
		up: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "discovery_connected", Help: "1 while there is a connection to a discovery.",
		}),
		reconnects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "discovery_reconnects_total", Help: "Connections to a discovery that were made after the first: it went away, another took its place, or the certificate was renewed.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "discovery_failures_total", Help: "How often every discovery was tried and none could be connected to.",
		}),
	}
	r.MustRegister(m.up, m.reconnects, m.failures)
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

func (m *metrics) away() {
	if m != nil {
		m.up.Set(0)
	}
}

func (m *metrics) missed() {
	if m != nil {
		m.failures.Inc()
	}
}
