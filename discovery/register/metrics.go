package register

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics measure how registration goes.
type metrics struct {
	connected prometheus.Gauge
	changes   prometheus.Counter
	answers   prometheus.Histogram
}

func newMetrics(to prometheus.Registerer, b *roster) *metrics {
	m := &metrics{
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pgmesh_discovery_registry_connected", Help: "1 while mcp-server takes what machines register; it is asked when there is something.",
		}),
		changes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgmesh_discovery_registry_changes_total", Help: "Changes of services of machines that mcp-server has taken.",
		}),
		answers: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pgmesh_discovery_registry_batch_seconds", Help: "How long mcp-server takes for a batch of changes, to the commit.",
			Buckets: []float64{.002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30},
		}),
	}
	if to != nil {
		to.MustRegister(m.connected, m.changes, m.answers, collector{b})
	}
	return m
}

func (m *metrics) reported(changes int, took time.Duration) {
	m.changes.Add(float64(changes))
	m.answers.Observe(took.Seconds())
}

var (
	machineCount = prometheus.NewDesc("pgmesh_discovery_machines", "Machines that are connected to register their services.", nil, nil)
	serviceCount = prometheus.NewDesc("pgmesh_discovery_machine_services",
		"Services of machines, by how they stand: registered, refused, waiting for a first answer, or on their way out.", []string{"state"}, nil)
)

// collector counts what is in a roster whenever metrics are read.
type collector struct{ of *roster }

// Describe lists the metrics.
func (collector) Describe(to chan<- *prometheus.Desc) {
	to <- machineCount
	to <- serviceCount
}

// Collect counts.
func (c collector) Collect(to chan<- prometheus.Metric) {
	machines, services := c.of.count()
	to <- prometheus.MustNewConstMetric(machineCount, prometheus.GaugeValue, float64(machines))
	for _, s := range []standing{registeredState, refusedState, waitingState, leavingState} {
		to <- prometheus.MustNewConstMetric(serviceCount, prometheus.GaugeValue, float64(services[s]), string(s))
	}
}
