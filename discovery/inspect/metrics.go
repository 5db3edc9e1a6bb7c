package inspect

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	behindCount = prometheus.NewDesc("pgmesh_discovery_proxies_behind",
		"Proxies that have not accepted all that they are to have: stale, which have not answered or are to be sent more, and nacked, which refuse something.",
		[]string{"status"}, nil)
	longestWait = prometheus.NewDesc("pgmesh_discovery_longest_wait_seconds",
		"How long the proxy that is furthest behind has been so, those left aside that refuse something.", nil, nil)
)

// collector counts the proxies that are behind whenever metrics are read.
type collector struct{ of *Inspector }

// Register registers the metrics of proxies that are behind.
func (i *Inspector) Register(metrics prometheus.Registerer) { metrics.MustRegister(collector{i}) }

// Describe lists the metrics.
func (collector) Describe(to chan<- *prometheus.Desc) {
	to <- behindCount
	to <- longestWait
}

// Collect looks at all streams.
func (c collector) Collect(to chan<- prometheus.Metric) {
	counts, longest := map[status]int{}, 0.0
	for _, b := range behind(c.of.clients(), time.Now()) {
		s := b.status()
		if counts[s]++; s == stale {
			longest = max(longest, b.Seconds)
		}
	}
	for _, s := range []status{stale, nacked} {
		to <- prometheus.MustNewConstMetric(behindCount, prometheus.GaugeValue, float64(counts[s]), string(s))
	}
	to <- prometheus.MustNewConstMetric(longestWait, prometheus.GaugeValue, longest)
}

// status is the status of the proxy as a whole.
func (b *shownBehind) status() status {
	for _, t := range b.Types {
		if t.Status == nacked {
			return nacked
		}
	}
	return stale
}
