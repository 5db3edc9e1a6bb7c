package sts

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	requests *prometheus.CounterVec
	took     prometheus.Histogram
}

func newMetrics(r prometheus.Registerer, c *cache) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_mesh_agent_sts_requests_total", Help: "Exchanges of tokens that were asked for, by how that ended: exchanged, remembered, refused, failed.",
		}, []string{"outcome"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pgmesh_mesh_agent_sts_upstream_duration_seconds", Help: "How long the server of tokens took to answer.", Buckets: prometheus.ExponentialBuckets(0.002, 2.5, 10),
		}),
	}
	if r != nil {
		r.MustRegister(m.requests, m.took, prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "pgmesh_mesh_agent_sts_tokens", Help: "Tokens that are remembered."}, func() float64 { return float64(c.len()) }))
	}
	return m
}
