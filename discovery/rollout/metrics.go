package rollout

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// metrics measure the reports.
type metrics struct {
	connected prometheus.Gauge
	proxies   prometheus.Counter
	answers   prometheus.Histogram
}

func newMetrics(to prometheus.Registerer) *metrics {
	m := &metrics{
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pgmesh_discovery_rollout_connected", Help: "1 while mcp-server takes reports of what proxies run.",
		}),
		proxies: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgmesh_discovery_rollout_proxies_total", Help: "States of single proxies that were reported. Those that keep up with changes are reported together, and not counted.",
		}),
		answers: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pgmesh_discovery_rollout_message_seconds", Help: "How long mcp-server takes for a message of a report, to the commit.",
			Buckets: []float64{.002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30},
		}),
	}
	if to != nil {
		to.MustRegister(m.connected, m.proxies, m.answers)
	}
	return m
}

func (m *metrics) sent(message *rolloutv1.ReportRequest, took time.Duration) {
	m.connected.Set(1)
	m.proxies.Add(float64(len(message.GetProxies()) + len(message.GetGone())))
	m.answers.Observe(took.Seconds())
}
