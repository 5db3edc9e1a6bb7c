package watchdog

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	blockers *prometheus.GaugeVec
	blocked  prometheus.Gauge
	longest  prometheus.Gauge
	usage    prometheus.Gauge
	ended    prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		blockers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pgmesh_mcp_server_blockers", Help: "Sessions of the database that keep others waiting, by why: lock, queue or idle.",
		}, []string{"reason"}),
		blocked: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pgmesh_mcp_server_blocked_sessions", Help: "Sessions of the database that wait for locks of others in the mesh."}),
		longest: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pgmesh_mcp_server_blocked_seconds", Help: "For how long the session that others have waited for longest has kept them waiting."}),
		usage: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pgmesh_mcp_server_notification_queue_usage", Help: "How much of the room for notifications of the database server was taken, of 1, at the last look.",
		}),
		ended: prometheus.NewCounter(prometheus.CounterOpts{Name: "pgmesh_mcp_server_blockers_ended_total", Help: "Sessions that were ended because they kept others waiting."}),
	}
	r.MustRegister(m.blockers, m.blocked, m.longest, m.usage, m.ended)
	return m
}

// show sets the gauges.
func (m *metrics) show(there []*sighting) {
	count := map[string]int{"lock": 0, "queue": 0, idle: 0}
	blocked, longest := map[int32]bool{}, 0.0
	for _, s := range there {
		count[s.Reason]++
		for _, pid := range s.Blocks {
			blocked[pid] = true
		}
		if s.Reason == "lock" {
			longest = max(longest, s.waited().Seconds())
		}
	}
	for reason, n := range count {
		m.blockers.WithLabelValues(reason).Set(float64(n))
	}
	m.blocked.Set(float64(len(blocked)))
	m.longest.Set(longest)
}
