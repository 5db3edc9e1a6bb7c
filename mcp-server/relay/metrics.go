package relay

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	connected *prometheus.GaugeVec
	failures  *prometheus.CounterVec
	batches   prometheus.Counter
}

func newMetrics(registry prometheus.Registerer, upstreams []string) metrics {
	opts := func(name, help string) prometheus.Opts { return prometheus.Opts{Name: name, Help: help} }
	m := metrics{
		connected: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("pgmesh_mcp_server_upstream_connected", "1 for the upstream that is being followed.")), []string{"upstream"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts(opts("pgmesh_mcp_server_upstream_failures_total",
			"How often an upstream was lost, could not be reached or was not fit to be followed.")), []string{"upstream"}),
		batches: prometheus.NewCounter(prometheus.CounterOpts(opts("pgmesh_mcp_server_batches_total", "Batches read from upstreams."))),
	}
	for _, u := range upstreams {
		m.connected.WithLabelValues(u).Set(0)
		m.failures.WithLabelValues(u)
	}
	registry.MustRegister(m.connected, m.failures, m.batches)
	return m
}
