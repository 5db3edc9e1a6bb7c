package serve

import (
	"github.com/prometheus/client_golang/prometheus"
)

// serversLabel has the addresses of one --mcp or --mcp-beside.
const serversLabel = "servers"

var (
	sourceConnected = prometheus.NewDesc("pgmesh_discovery_mcp_connected", "1 while the stream to the MCP server is up.", []string{serversLabel}, nil)
	sourceInfo      = prometheus.NewDesc("pgmesh_discovery_mcp_server_info",
		"1 for the MCP server that is followed, or was last, and the protocol that is spoken with it.", []string{serversLabel, "server", "protocol"}, nil)
	sourceLosses = prometheus.NewDesc("pgmesh_discovery_mcp_losses_total",
		"How often an MCP server that was followed has been lost.", []string{serversLabel}, nil)
	sourceUnanswered = prometheus.NewDesc("pgmesh_discovery_mcp_unanswered_types",
		"Types that the MCP server leaves unanswered. While there are any, nothing new is served to proxies.", []string{serversLabel}, nil)
	sourceHeld = prometheus.NewDesc("pgmesh_discovery_mcp_held_resources",
		"Resources that stay in force although the MCP server has suddenly none of their kind.", []string{serversLabel, "kind"}, nil)
)

// sourceCollector turns the status of clients into metrics: each by the addresses of its servers.
type sourceCollector map[string]followed

// Describe lists the metrics.
func (sourceCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sourceConnected, sourceInfo, sourceLosses, sourceUnanswered, sourceHeld} {
		to <- d
	}
}

// Collect reads the status of the clients.
func (c sourceCollector) Collect(to chan<- prometheus.Metric) {
	for servers, client := range c {
		client.collect(servers, to)
	}
}

func (f followed) collect(servers string, to chan<- prometheus.Metric) {
	s, connected := f.Status(), 0.0
	if s.Connected {
		connected = 1
	}
	to <- prometheus.MustNewConstMetric(sourceConnected, prometheus.GaugeValue, connected, servers)
	if s.Target != "" {
		to <- prometheus.MustNewConstMetric(sourceInfo, prometheus.GaugeValue, 1, servers, s.Target, string(s.Protocol))
	}
	to <- prometheus.MustNewConstMetric(sourceLosses, prometheus.CounterValue, float64(s.Losses), servers)
	to <- prometheus.MustNewConstMetric(sourceUnanswered, prometheus.GaugeValue, float64(len(s.Unanswered)), servers)
	for _, h := range s.Held {
		to <- prometheus.MustNewConstMetric(sourceHeld, prometheus.GaugeValue, float64(h.Resources), servers, h.Kind.Name+"."+h.Kind.Group)
	}
}
