package translate

import (
	"strings"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// outboundStat is what a cluster is called in statistics: its name, unless the mesh has a pattern for it.
func (v view) outboundStat(u upstream) string {
	pattern := v.config.GetOutboundClusterStatName()
	if pattern == "" {
		return u.name()
	}
	return fillStat(pattern, u.service.Hostname, u.subset.GetName(), u.port, 0)
}

// inboundStat is the same for a port of the proxy's own workload.
func (v view) inboundStat(local localCluster) string {
	pattern := v.config.GetInboundClusterStatName()
	if pattern == "" {
		return InboundClusterName(local.port)
	}
	return fillStat(pattern, v.hostOf(local), "", local.declared, local.port)
}

// fillStat puts what a pattern of the mesh configuration asks for into it.
func fillStat(pattern, host, subset string, port *mesh.Port, target uint32) string {
	return strings.NewReplacer(
		"%SERVICE%", host, "%SERVICE_NAME%", host, "%SERVICE_FQDN%", host,
		"%SUBSET_NAME%", subset, "%TARGET_PORT%", number(target), "%SERVICE_PORT%", number(port.Number), "%SERVICE_PORT_NAME%", port.Name,
	).Replace(pattern)
}
