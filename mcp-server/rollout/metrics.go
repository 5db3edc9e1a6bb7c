package rollout

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	reports  prometheus.Gauge
	messages *prometheus.CounterVec
	seconds  prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		reports: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pgmesh_mcp_server_rollout_reports", Help: "Discoveries that report here what their proxies run."}),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_mcp_server_rollout_messages_total",
			Help: "Messages of these reports: done, refused, since they can never be taken, or failed. After the last two the stream ends.",
		}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pgmesh_mcp_server_rollout_message_seconds", Help: "How long the database took for a message.", Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30},
		}),
	}
	r.MustRegister(m.reports, m.messages, m.seconds)
	return m
}
