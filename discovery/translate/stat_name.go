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
	return fillStat(pattern, u.service, u.subset.GetName(), u.port, 0)
}

// inboundStat is the same for a port of the proxy's own workload.
func (v view) inboundStat(first mesh.Target) string {
	pattern := v.config.GetInboundClusterStatName()
	if pattern == "" {
		return InboundClusterName(first.Number)
	}
	return fillStat(pattern, first.Service, "", first.Port, first.Number)
}

// fillStat puts what a pattern of the mesh configuration asks for into it.
func fillStat(pattern string, s *mesh.Service, subset string, port *mesh.Port, target uint32) string {
	return strings.NewReplacer(
		"%SERVICE%", s.Hostname, "%SERVICE_NAME%", s.Hostname, "%SERVICE_FQDN%", s.Hostname,
		"%SUBSET_NAME%", subset, "%TARGET_PORT%", number(target), "%SERVICE_PORT%", number(port.Number), "%SERVICE_PORT_NAME%", port.Name,
	).Replace(pattern)
}
