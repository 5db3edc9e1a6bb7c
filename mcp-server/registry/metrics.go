package registry

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	sessions prometheus.Gauge
	batches  *prometheus.CounterVec
	changes  *prometheus.CounterVec
	rows     prometheus.Counter
	removed  prometheus.Counter
	seconds  prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		sessions: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pgmesh_mcp_server_registry_sessions", Help: "Discoveries that register machines here."}),
		batches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_mcp_server_registry_batches_total", Help: "Messages of discoveries with changes of machines: done, or failed, after which the stream ends.",
		}, []string{"outcome"}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_mcp_server_registry_changes_total", Help: "Changes of services of machines: taken, refused, or superseded by later ones.",
		}, []string{"outcome"}),
		rows: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgmesh_mcp_server_registry_rows_written_total", Help: "Rows that were written to the database for that, those of the history included.",
		}),
		removed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgmesh_mcp_server_registry_removed_total", Help: "Services of machines that this server has removed, since they were gone for the grace period.",
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pgmesh_mcp_server_registry_batch_seconds", Help: "How long the database took for a message.", Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30},
		}),
	}
	r.MustRegister(m.sessions, m.batches, m.changes, m.rows, m.removed, m.seconds)
	return m
}
