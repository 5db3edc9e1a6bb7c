// Package adsmetrics counts what happens on xDS streams, under the same names in every program that serves them.
package adsmetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/internal/ads"
)

// Metrics is an [ads.Observer].
type Metrics struct {
	streams   *prometheus.GaugeVec
	responses *prometheus.CounterVec
	resources *prometheus.CounterVec
	answers   *prometheus.CounterVec
	unheard   *prometheus.CounterVec
	label     func(typeURL string) string
}

// New registers the metrics of one program, whose names begin with its own. Label names a type in the metrics; clients may ask
// for any type they like, so it must have few results.
func New(r prometheus.Registerer, program string, label func(typeURL string) string) *Metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "pgmesh", Subsystem: program, Name: name, Help: help}
	}
	m := &Metrics{
		label:     label,
		streams:   prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("streams", "Clients that are connected, by protocol.")), []string{"protocol"}),
		responses: prometheus.NewCounterVec(prometheus.CounterOpts(opts("responses_total", "Responses sent, by type.")), []string{"type"}),
		resources: prometheus.NewCounterVec(prometheus.CounterOpts(opts("resources_total",
			"Resources sent and names reported as removed, by type.")), []string{"type", "change"}),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts(opts("answers_total",
			"What clients said to responses, by type: ack, or nack for a refusal.")), []string{"type", "answer"}),
		unheard: prometheus.NewCounterVec(prometheus.CounterOpts(opts("unreceived_total",
			"Clients that left without an answer to a response that is larger than gRPC receives by default, by type.")), []string{"type"}),
	}
	r.MustRegister(m.streams, m.responses, m.resources, m.answers, m.unheard)
	return m
}

func protocol(s *ads.Stream) string {
	if s.Incremental() {
		return "delta"
	}
	return "sotw"
}

// Opened counts a client in.
func (m *Metrics) Opened(s *ads.Stream) { m.streams.WithLabelValues(protocol(s)).Inc() }

// Closed counts a client out.
func (m *Metrics) Closed(s *ads.Stream) { m.streams.WithLabelValues(protocol(s)).Dec() }

// Sent counts a response.
func (m *Metrics) Sent(_ *ads.Stream, typeURL, _ string, resources, removed int) {
	m.responses.WithLabelValues(m.label(typeURL)).Inc()
	m.resources.WithLabelValues(m.label(typeURL), "sent").Add(float64(resources))
	m.resources.WithLabelValues(m.label(typeURL), "removed").Add(float64(removed))
}

// Acked counts an acceptance.
func (m *Metrics) Acked(_ *ads.Stream, typeURL, _ string) {
	m.answers.WithLabelValues(m.label(typeURL), "ack").Inc()
}

// Nacked counts a refusal.
func (m *Metrics) Nacked(_ *ads.Stream, typeURL, _, _ string) {
	m.answers.WithLabelValues(m.label(typeURL), "nack").Inc()
}

// Unreceived counts a client that may not be able to receive what it asks for.
func (m *Metrics) Unreceived(_ *ads.Stream, typeURL string, _ int) {
	m.unheard.WithLabelValues(m.label(typeURL)).Inc()
}
