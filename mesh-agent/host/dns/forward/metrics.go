package forward

import (
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	failures *prometheus.CounterVec
	took     *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer, f *Forwarder) *metrics {
	m := &metrics{
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_mesh_agent_dns_upstream_failures_total", Help: "Questions that another resolver did not answer, by the resolver and the reason: timeout, network, malformed.",
		}, []string{"upstream", "reason"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pgmesh_mesh_agent_dns_upstream_duration_seconds", Help: "How long other resolvers took to answer.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 13),
		}, []string{"upstream"}),
	}
	if r == nil {
		return m
	}
	r.MustRegister(m.failures, m.took,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "pgmesh_mesh_agent_dns_upstreams_well", Help: "Other resolvers that answered when they were asked last."},
			func() float64 { return float64(f.countHealthy()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "pgmesh_mesh_agent_dns_cache_entries", Help: "Answers of other resolvers that are remembered."},
			func() float64 { entries, _ := f.cache.size(); return float64(entries) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "pgmesh_mesh_agent_dns_cache_bytes", Help: "Memory that remembered answers take, about."},
			func() float64 { _, bytes := f.cache.size(); return float64(bytes) }))
	return m
}

func (m *metrics) failed(u netip.AddrPort, err error) {
	m.failures.WithLabelValues(u.String(), reason(err)).Inc()
}

func (m *metrics) answered(u netip.AddrPort, took time.Duration) {
	m.took.WithLabelValues(u.String()).Observe(took.Seconds())
}

func (m *metrics) forget(u netip.AddrPort) {
	m.failures.DeletePartialMatch(prometheus.Labels{"upstream": u.String()})
	m.took.DeletePartialMatch(prometheus.Labels{"upstream": u.String()})
}

func (f *Forwarder) countHealthy() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, u := range f.upstreams {
		if u.healthy() {
			n++
		}
	}
	return n
}
