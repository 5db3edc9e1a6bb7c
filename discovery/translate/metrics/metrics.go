// Package metrics has proxies count requests and connections: Istio's standard metrics.
//
// A stock Envoy counts them by access loggers that write no log. What they have in one tag
// (internal/standardmetrics) becomes labels on the agent's page.
package metrics

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	statsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stats/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/internal/standardmetrics"
)

// The most counters and histograms of a proxy. Envoy counts what is above them in
// server.stats_overflow, and under no name. A histogram takes some kilobytes.
const (
	maxCounters   = 30_000
	maxHistograms = 15_000
	maxMessages   = 5_000
)

// Scopes hold the series of all listeners together, so that they last longer than a listener.
// Nothing in them is ever forgotten: the page adds series up, and a sum must not become less. Those
// of messages have a scope of their own, because clients decide how many these are: a series for
// each number.
var (
	scope = &typev3.Scope{
		Prefix: standardmetrics.Scope, SharingName: "istio_standard_metrics",
		MaxCounters: wrapperspb.UInt32(maxCounters), MaxHistograms: wrapperspb.UInt32(maxHistograms),
	}
	messageScope = &typev3.Scope{
		Prefix: standardmetrics.Scope, SharingName: "istio_standard_metrics_of_messages", MaxCounters: wrapperspb.UInt32(maxMessages),
	}
)

// Metrics are those of a proxy in one role. The zero value counts nothing.
type Metrics struct {
	on   bool
	role mesh.Role
	own  standardmetrics.Workload

	overrides map[string]mesh.MetricOverride
}

// Of returns what a proxy counts in a role. Of several providers that show metrics, all show the
// same page: the first says what is on it.
func Of(v view.View, role mesh.Role) Metrics {
	told := v.Mesh.Telemetry(v.Proxy).As(role).Metrics
	if len(told) == 0 {
		return Metrics{}
	}
	m := Metrics{on: true, role: role, own: v.Mesh.MeasuredAs(v.Proxy), overrides: map[string]mesh.MetricOverride{}}
	for _, o := range told[0].Overrides {
		m.overrides[o.Metric] = o
	}
	return m
}

// Requests has the requests of a connection manager counted. At the server's side they are for a
// service, "" for none that the mesh knows.
func (m Metrics) Requests(service string) []*accesslogv3.AccessLog {
	if !m.on {
		return nil
	}
	web, grpc := m.seriesOf(service, standardmetrics.HTTP), m.seriesOf(service, standardmetrics.GRPC)
	grpc.GRPC = "%GRPC_STATUS_NUMBER%"
	return compact(
		m.logger(isGRPC(true), m.request(web)),
		m.logger(isGRPC(false), m.request(grpc)),
		m.loggerIn(messageScope, isGRPC(false), m.messages(grpc)),
	)
}

// Connections has the connections of a TCP proxy counted. The proxy has to log when one is
// connected.
func (m Metrics) Connections(service string) []*accesslogv3.AccessLog {
	if !m.on {
		return nil
	}
	s := m.seriesOf(service, standardmetrics.TCP)
	return compact(m.logger(atStart, m.opened(s)), m.logger(AtEnd(neverConnected), m.opened(s)), m.logger(atEnd, m.closed(s)))
}

// seriesOf is what Envoy writes of a request or a connection.
func (m Metrics) seriesOf(service, protocol string) standardmetrics.Series {
	s := standardmetrics.Series{Own: m.own, Protocol: protocol, Flags: "%RESPONSE_FLAGS%"}
	if protocol != standardmetrics.TCP {
		s.Code = "%RESPONSE_CODE%"
	}
	if m.role == mesh.AsServer {
		s.Reporter, s.Service = standardmetrics.Destination, service
		s.OwnID, s.PeerID, s.Peer = "%DOWNSTREAM_LOCAL_URI_SAN%", "%DOWNSTREAM_PEER_URI_SAN%", "%DOWNSTREAM_PEER_OTHERNAME_SAN%"
		return s
	}
	s.Reporter, s.Service = standardmetrics.Source, "%UPSTREAM_CLUSTER_RAW%"
	s.OwnID, s.PeerID, s.Peer = "%UPSTREAM_LOCAL_URI_SAN%", "%UPSTREAM_PEER_URI_SAN%", endpointOrServices
	return s
}

// endpointOrServices is the tag of the endpoint that was chosen. Where none was, there are the
// services of the cluster, which are costly to write: JSON.
const endpointOrServices = `%COALESCE({"operators":[{"command":"UPSTREAM_METADATA","param":"istio:workload"},{"command":"CLUSTER_METADATA","param":"istio:services"}]})%`

func (m Metrics) logger(when *accesslogv3.AccessLogFilter, what *statsv3.Config) *accesslogv3.AccessLog {
	return m.loggerIn(scope, when, what)
}

func (Metrics) loggerIn(scope *typev3.Scope, when *accesslogv3.AccessLogFilter, what *statsv3.Config) *accesslogv3.AccessLog {
	if len(what.GetCounters())+len(what.GetHistograms()) == 0 {
		return nil
	}
	what.StatsScope = scope
	return &accesslogv3.AccessLog{
		Name: "envoy.access_loggers.stats", Filter: when,
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: message.Pack(what)},
	}
}

func compact(loggers ...*accesslogv3.AccessLog) (out []*accesslogv3.AccessLog) {
	for _, l := range loggers {
		if l != nil {
			out = append(out, l)
		}
	}
	return out
}
