package metrics

import (
	statsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stats/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/internal/standardmetrics"
)

// request are the metrics of a whole request.
func (m Metrics) request(s standardmetrics.Series) *statsv3.Config {
	c := &statsv3.Config{}
	m.count(c, "REQUEST_COUNT", "requests_total", s, "")
	m.spread(c, "REQUEST_DURATION", "request_duration_milliseconds", s, statsv3.Config_Histogram_Milliseconds, "%DURATION%")
	m.spread(c, "REQUEST_SIZE", "request_bytes", s, statsv3.Config_Histogram_Bytes, "%DOWNSTREAM_WIRE_BYTES_RECEIVED%")
	m.spread(c, "RESPONSE_SIZE", "response_bytes", s, statsv3.Config_Histogram_Bytes, "%DOWNSTREAM_WIRE_BYTES_SENT%")
	return c
}

// messages are the metrics of what a call of gRPC consists of. Envoy has their numbers as a text
// alone, so it counts calls with the same numbers, and the page multiplies.
func (m Metrics) messages(s standardmetrics.Series) *statsv3.Config {
	c := &statsv3.Config{}
	m.count(c, "GRPC_REQUEST_MESSAGES", "request_messages_total", s, "")
	m.count(c, "GRPC_RESPONSE_MESSAGES", "response_messages_total", s, "")
	for _, counter := range c.GetCounters() {
		counter.Stat.Tags = append(counter.GetStat().GetTags(), &statsv3.Config_Tag{
			Name: standardmetrics.Messages, ValueFormat: "%FILTER_STATE(envoy.filters.http.grpc_stats:PLAIN)%",
		})
	}
	return c
}

func (m Metrics) opened(s standardmetrics.Series) *statsv3.Config {
	c := &statsv3.Config{}
	m.count(c, "TCP_OPENED_CONNECTIONS", "tcp_connections_opened_total", s, "")
	return c
}

func (m Metrics) closed(s standardmetrics.Series) *statsv3.Config {
	c := &statsv3.Config{}
	m.count(c, "TCP_CLOSED_CONNECTIONS", "tcp_connections_closed_total", s, "")
	m.count(c, "TCP_SENT_BYTES", "tcp_sent_bytes_total", s, "%DOWNSTREAM_WIRE_BYTES_SENT%")
	m.count(c, "TCP_RECEIVED_BYTES", "tcp_received_bytes_total", s, "%DOWNSTREAM_WIRE_BYTES_RECEIVED%")
	return c
}

// count adds a counter, of what a format gives, or of 1 each time.
func (m Metrics) count(c *statsv3.Config, metric, name string, s standardmetrics.Series, format string) {
	if m.overrides[metric].Disabled {
		return
	}
	counter := &statsv3.Config_Counter{Stat: m.stat(metric, name, s), ValueFormat: format}
	if format == "" {
		counter.ValueFixed = wrapperspb.UInt64(1)
	}
	c.Counters = append(c.Counters, counter)
}

// spread adds a histogram.
func (m Metrics) spread(c *statsv3.Config, metric, name string, s standardmetrics.Series, unit statsv3.Config_Histogram_Unit, format string) {
	if !m.overrides[metric].Disabled {
		c.Histograms = append(c.Histograms, &statsv3.Config_Histogram{Stat: m.stat(metric, name, s), Unit: unit, ValueFormat: format})
	}
}
