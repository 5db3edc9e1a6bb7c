package membership

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics say where the metrics of a membership are registered, and what they are called in one
// program. The zero value registers none.
type Metrics struct {
	Registerer         prometheus.Registerer
	NotAfter, Renewals string // the names
}

// metrics report when the certificate ends and whether renewals succeed. A nil *metrics does
// nothing.
type metrics struct {
	ends     prometheus.Gauge
	renewals *prometheus.CounterVec
}

func newMetrics(to Metrics) *metrics {
	if to.Registerer == nil {
		return nil
	}
	m := &metrics{
		ends: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: to.NotAfter, Help: "When the certificate that says who this program is ends to be valid, as a Unix time.",
		}),
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: to.Renewals, Help: "Attempts to have the certificate that says who this program is renewed, by outcome.",
		}, []string{"outcome"}),
	}
	m.renewals.WithLabelValues("failed") // so that the first failure shows as an increase
	m.renewals.WithLabelValues("renewed")
	to.Registerer.MustRegister(m.ends, m.renewals)
	return m
}

func (m *metrics) notAfter(t time.Time) {
	if m != nil {
		m.ends.Set(float64(t.Unix()))
	}
}

func (m *metrics) renewed(err error) {
	if m == nil {
		return
	}
	outcome := "renewed"
	if err != nil {
		outcome = "failed"
	}
	m.renewals.WithLabelValues(outcome).Inc()
}
