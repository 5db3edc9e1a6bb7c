// Package adsmetrics counts what happens on xDS streams, under the same names in every program that
// serves them.
package adsmetrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/internal/ads"
)

// Metrics is an [ads.Observer].
type Metrics struct {
	streams   *prometheus.GaugeVec
	responses *prometheus.CounterVec
	resources *prometheus.CounterVec
	bytes     *prometheus.HistogramVec
	answers   *prometheus.CounterVec
	waits     *prometheus.HistogramVec
	refused   *prometheus.GaugeVec
	held      *prometheus.HistogramVec
	turned    *prometheus.CounterVec
	unheard   *prometheus.CounterVec
	label     func(typeURL string) string

	// The most frequent counters are found by the type's label alone: a lookup by all labels takes
	// longer than counting.
	sent  sync.Map // of *sent
	acked sync.Map // of *acked
}

// sent has the counters for messages of one type.
type sent struct {
	responses, resources, removed prometheus.Counter
	bytes                         prometheus.Observer
}

// acked has the counters for acceptances of one type.
type acked struct {
	answers prometheus.Counter
	waits   prometheus.Observer
}

// found returns the value of a label in a map. It makes the value the first time.
func found[V any](among *sync.Map, label string, first func(label string) *V) *V {
	known, ok := among.Load(label)
	if !ok {
		known, _ = among.LoadOrStore(label, first(label))
	}
	return known.(*V) //nolint:forcetypeassert // there is nothing else in it
}

// New registers the metrics of one program, under its names. Label names a type in the metrics;
// clients may ask for any type they like, so it must have few results.
func New(r prometheus.Registerer, names Names, label func(typeURL string) string) *Metrics {
	opts := func(name, help string) prometheus.Opts { return prometheus.Opts{Name: name, Help: help} }
	m := &Metrics{
		label:     label,
		streams:   prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(names.Streams, "Clients that are connected, by protocol.")), []string{"protocol"}),
		responses: prometheus.NewCounterVec(prometheus.CounterOpts(opts(names.Responses, "Responses sent, by type.")), []string{"type"}),
		resources: prometheus.NewCounterVec(prometheus.CounterOpts(opts(names.Resources,
			"Resources sent and names reported as removed, by type.")), []string{"type", "change"}),
		bytes: prometheus.NewHistogramVec(histogram(opts(names.ResponseBytes, "Sizes of the messages in which responses are sent, by type."),
			256, 1<<10, 4<<10, 16<<10, 64<<10, 256<<10, 1<<20, 4<<20, 16<<20), []string{"type"}),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts(opts(names.Answers,
			"What clients said to responses, by type: ack, or nack for a refusal.")), []string{"type", "answer"}),
		waits: prometheus.NewHistogramVec(histogram(opts(names.AnswerSeconds, "Time from when a response was sent until the client answered it, by type."),
			.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30), []string{"type"}),
		refused: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(names.RefusedResources,
			"Resources that clients refuse at the moment, each counted for every client that does, by type.")), []string{"type"}),
		held: prometheus.NewHistogramVec(histogram(opts(names.LimitWaits, "Time that clients had to wait because of a limit: pushes, arrivals, requests, memory (of large requests), unfinished (large requests that are on their way) or repeats (of whole states)."),
			.001, .01, .1, .5, 1, 5, 10, 30), []string{"limit"}),
		turned: prometheus.NewCounterVec(prometheus.CounterOpts(opts(names.LimitRefusals,
			"Clients that were turned away because of a limit: arrivals, names, memory (of large requests), unfinished (large requests that are on their way) or repeats (of whole states).")), []string{"limit"}),
		unheard: prometheus.NewCounterVec(prometheus.CounterOpts(opts(names.Unreceived,
			"Clients that left without an answer to a response that is larger than gRPC receives by default, by type.")), []string{"type"}),
	}
	r.MustRegister(m.streams, m.responses, m.resources, m.bytes, m.answers, m.waits, m.refused, m.held, m.turned, m.unheard)
	for _, limit := range []string{ads.PushLimit, ads.ArrivalLimit, ads.RequestLimit, ads.MemoryLimit, ads.UnfinishedLimit, ads.RepeatLimit} { // so that they show before they are reached
		m.held.WithLabelValues(limit)
	}
	for _, limit := range []string{ads.ArrivalLimit, ads.NameLimit, ads.MemoryLimit, ads.UnfinishedLimit, ads.RepeatLimit} {
		m.turned.WithLabelValues(limit)
	}
	return m
}

func histogram(o prometheus.Opts, buckets ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Name: o.Name, Help: o.Help, Buckets: buckets}
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

// Sent counts a message.
func (m *Metrics) Sent(_ *ads.Stream, message ads.Message) {
	of := found(&m.sent, m.label(message.TypeURL), m.sentOf)
	of.responses.Inc()
	of.resources.Add(float64(message.Resources))
	of.removed.Add(float64(message.Removed))
	of.bytes.Observe(float64(message.Bytes))
}

func (m *Metrics) sentOf(label string) *sent {
	return &sent{
		m.responses.WithLabelValues(label), m.resources.WithLabelValues(label, "sent"), m.resources.WithLabelValues(label, "removed"),
		m.bytes.WithLabelValues(label),
	}
}

// Acked counts an acceptance.
func (m *Metrics) Acked(_ *ads.Stream, v ads.Verdict) {
	of := found(&m.acked, m.label(v.TypeURL), m.ackedOf)
	of.answers.Inc()
	of.waits.Observe(v.After.Seconds())
}

func (m *Metrics) ackedOf(label string) *acked {
	return &acked{m.answers.WithLabelValues(label, "ack"), m.waits.WithLabelValues(label)}
}

// Nacked counts a refusal.
func (m *Metrics) Nacked(_ *ads.Stream, v ads.Verdict) {
	label := m.label(v.TypeURL)
	m.answers.WithLabelValues(label, "nack").Inc()
	m.waits.WithLabelValues(label).Observe(v.After.Seconds())
}

// Refusing counts the resources that are refused.
func (m *Metrics) Refusing(_ *ads.Stream, typeURL string, more int) {
	m.refused.WithLabelValues(m.label(typeURL)).Add(float64(more))
}

// Limited counts how often limits are reached.
func (m *Metrics) Limited(limit string, waited time.Duration, turnedAway bool) {
	if turnedAway {
		m.turned.WithLabelValues(limit).Inc()
		return
	}
	m.held.WithLabelValues(limit).Observe(waited.Seconds())
}

// Unreceived counts a client that may not be able to receive what it asks for.
func (m *Metrics) Unreceived(_ *ads.Stream, typeURL string, _ int) {
	m.unheard.WithLabelValues(m.label(typeURL)).Inc()
}
