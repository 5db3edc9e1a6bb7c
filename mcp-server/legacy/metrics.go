package legacy

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	streams   *prometheus.GaugeVec
	responses *prometheus.CounterVec
	resources *prometheus.CounterVec
	answers   *prometheus.CounterVec
	withheld  *prometheus.CounterVec
	connected *prometheus.GaugeVec
	failures  *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer, open *openStreams) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		streams:   gauge("pgmesh_mcp_server_legacy_streams", "Streams of the first generation of MCP that are open, by service.", "service"),
		responses: counter("pgmesh_mcp_server_legacy_responses_total", "Responses sent on them, by collection.", "collection"),
		resources: counter("pgmesh_mcp_server_legacy_resources_total", "Resources sent and names reported as removed on them, by collection.", "collection", "change"),
		answers:   counter("pgmesh_mcp_server_legacy_answers_total", "What sinks said to responses: ack, or nack for a refusal.", "collection", "answer"),
		withheld: counter("pgmesh_mcp_server_legacy_withheld_total",
			"How often a collection or a resource was not sent to a sink because it is larger than --legacy-max-message.", "collection"),
		connected: gauge("pgmesh_mcp_server_sink_connected", "1 while a sink that this server dials is connected, 0 while it is not.", "sink"),
		failures:  counter("pgmesh_mcp_server_sink_failures_total", "How often a sink could not be reached, or its stream broke.", "sink"),
	}
	r.MustRegister(m.streams, m.responses, m.resources, m.answers, m.withheld, m.connected, m.failures, &withheld{open})
	return m
}

// sent counts a response.
func (m *metrics) sent(collection string, resources, removed int) {
	m.responses.WithLabelValues(collection).Inc()
	m.resources.WithLabelValues(collection, "sent").Add(float64(resources))
	m.resources.WithLabelValues(collection, "removed").Add(float64(removed))
}

// forget drops the metrics of a sink that is no longer dialled.
func (m *metrics) forget(sink string) {
	m.connected.DeleteLabelValues(sink)
	m.failures.DeleteLabelValues(sink)
}

// withheld collects the sizes of collections that open streams could not be sent.
type withheld struct{ open *openStreams }

var withheldBytes = prometheus.NewDesc("pgmesh_mcp_server_legacy_withheld_bytes",
	"The size of what some sink that is connected was not sent of a collection because it is too large; 0 if everything fits.", []string{"collection"}, nil)

func (*withheld) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- withheldBytes }

func (w *withheld) Collect(metrics chan<- prometheus.Metric) {
	largest := map[string]int{}
	for _, s := range w.open.read() {
		for _, c := range s.Collections {
			largest[label(c.Name)] = max(largest[label(c.Name)], c.WithheldBytes)
		}
	}
	for collection, size := range largest {
		metrics <- prometheus.MustNewConstMetric(withheldBytes, prometheus.GaugeValue, float64(size), collection)
	}
}
