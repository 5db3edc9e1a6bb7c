package authority

import (
	"crypto/x509"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/identity/refusal"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

type metrics struct {
	registry prometheus.Registerer // nil for none
	notAfter *prometheus.GaugeVec
	revoked  prometheus.Gauge
	calls    *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		registry: r,
		notAfter: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pgmesh_mcp_server_authority_not_after_seconds", Help: "When the authority that signs, the first of the roots, and the server's own certificate end, as a Unix time.",
		}, []string{"what"}),
		revoked: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pgmesh_mcp_server_authority_revocations", Help: "How many identities and enrolments are revoked."}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_mcp_server_authority_calls_total", Help: "What servers asked of the authority, by what it was and what came of it: given, or why it was refused.",
		}, []string{"call", "outcome"}),
	}
	if r != nil {
		r.MustRegister(m.notAfter, m.revoked, m.calls)
	}
	return m
}

// ages registers the gauge of how long the trust has been unreadable.
func (m *metrics) ages(stale func() (time.Duration, error)) {
	if m.registry == nil {
		return
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pgmesh_mcp_server_authority_trust_stale_seconds", Help: "For how long what the mesh trusts could not be read from the database; 0 while it can.",
	}, func() float64 {
		age, _ := stale()
		return age.Seconds()
	}))
}

func (m *metrics) observe(s *State) {
	m.revoked.Set(float64(len(s.revoked)))
	if s.signer != nil {
		m.notAfter.WithLabelValues("authority").Set(float64(s.signer.NotAfter().Unix()))
	}
	if len(s.roots) == 0 {
		return
	}
	first := s.roots[0].NotAfter
	for _, root := range s.roots {
		if root.NotAfter.Before(first) {
			first = root.NotAfter
		}
	}
	m.notAfter.WithLabelValues("roots").Set(float64(first.Unix()))
}

func (m *metrics) identified(c *x509.Certificate) {
	m.notAfter.WithLabelValues("own certificate").Set(float64(c.NotAfter.Unix()))
}

// called counts a call by its outcome.
func (m *metrics) called(call string, err error) {
	outcome := "given"
	if err != nil {
		outcome = "error"
		if reason := refusal.Of(err); reason != identityv1.Refusal_REFUSAL_UNSPECIFIED {
			outcome = refusal.Word(reason)
		}
	}
	m.calls.WithLabelValues(call, outcome).Inc()
}
