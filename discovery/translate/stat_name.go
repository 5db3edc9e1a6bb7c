package translate

import (
	"strings"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// outboundStat is what a cluster, and the TCP proxy that leads to it, is called in statistics: its name, unless the mesh has a pattern for it.
func (v view) outboundStat(u upstream) string {
	return v.destinationStat(u.name(), u.service.Hostname, u.subset.GetName(), u.port)
}

// destinationStat is the same for a cluster by its name, and what it is made for. The port is the one that clients connect to.
func (v view) destinationStat(cluster, host, subset string, port *mesh.Port) string {
	pattern := v.config.GetOutboundClusterStatName()
	if pattern == "" {
		return cluster
	}
	return fillStat(pattern, host, subset, port, 0)
}

// inboundStat is the same for a port of the proxy's own workload.
func (v view) inboundStat(local localCluster) string {
	pattern := v.config.GetInboundClusterStatName()
	if pattern == "" {
		return InboundClusterName(local.port)
	}
	return fillStat(pattern, v.hostOf(local), "", local.declared, local.port)
}

// tcpStat is what the TCP proxy of a port is called: by the pattern, also where nobody names the port.
func (in inboundPort) tcpStat() string {
	pattern := in.config.GetInboundClusterStatName()
	if pattern == "" {
		return in.cluster
	}
	return fillStat(pattern, in.service, "", &mesh.Port{Name: in.portName, Number: in.number}, in.port)
}

// fillStat puts what a pattern of the mesh configuration asks for into it.
func fillStat(pattern, host, subset string, port *mesh.Port, target uint32) string {
	return strings.NewReplacer(
		"%SERVICE%", host, "%SERVICE_NAME%", host, "%SERVICE_FQDN%", host,
		"%SUBSET_NAME%", subset, "%TARGET_PORT%", number(target), "%SERVICE_PORT%", number(port.Number), "%SERVICE_PORT_NAME%", port.Name,
	).Replace(pattern)
}
