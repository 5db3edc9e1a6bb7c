package dns

import (
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	queries *prometheus.CounterVec
	took    *prometheus.HistogramVec
	dropped prometheus.Counter
}

func newMetrics(r prometheus.Registerer, s *Server) *metrics {
	m := &metrics{
		queries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_mesh_agent_dns_queries_total",
			Help: "Questions, by their type, by who knew the answer (mesh, machine, cache, upstream, stale, failed, refused), and by the code of the answer.",
		}, []string{"type", "from", "code"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pgmesh_mesh_agent_dns_query_duration_seconds", Help: "How long answers took, by who knew them.", Buckets: prometheus.ExponentialBuckets(0.00005, 4, 9),
		}, []string{"from"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgmesh_mesh_agent_dns_dropped_total", Help: "Questions that nobody answered, because there were too many at once.",
		}),
	}
	if r != nil {
		r.MustRegister(m.queries, m.took, m.dropped, prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "pgmesh_mesh_agent_dns_names", Help: "Names of the mesh that are answered for."},
			func() float64 { n, _ := s.Known(); return float64(n) }))
	}
	return m
}

// count counts a query. Only common types get a label of their own: there are 65,536, and clients
// choose.
func (m *metrics) count(asked uint16, from origin, code int, took time.Duration) {
	name := "other"
	switch asked {
	case dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypePTR, dns.TypeTXT, dns.TypeMX, dns.TypeHTTPS, dns.TypeSVCB, dns.TypeCNAME, dns.TypeANY, dns.TypeNS, dns.TypeSOA:
		name = dns.TypeToString[asked]
	}
	m.queries.WithLabelValues(name, string(from), dns.RcodeToString[code]).Inc()
	m.took.WithLabelValues(string(from)).Observe(took.Seconds())
}
