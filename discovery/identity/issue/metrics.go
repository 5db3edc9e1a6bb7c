package issue

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/identity/refusal"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

type metrics struct {
	issued, refused *prometheus.CounterVec
	signing         prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		issued: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_discovery_certificates_issued_total", Help: "Certificates that machines were given, by what they have shown: token, certificate or jwt.",
		}, []string{"by"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_discovery_certificates_refused_total", Help: "Requests for certificates that were refused, by why.",
		}, []string{"reason"}),
		signing: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pgmesh_discovery_signing_seconds", Help: "Time to sign a certificate.", Buckets: prometheus.ExponentialBuckets(0.00005, 2, 14),
		}),
	}
	for _, by := range []string{byToken, byCertificate, byWebToken} {
		m.issued.WithLabelValues(by) // so that all begin at 0
	}
	for number := range identityv1.Refusal_name {
		if reason := identityv1.Refusal(number); reason != identityv1.Refusal_REFUSAL_UNSPECIFIED {
			m.refused.WithLabelValues(refusal.Word(reason))
		}
	}
	r.MustRegister(m.issued, m.refused, m.signing)
	return m
}
