package upstream

import (
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Stat is what a cluster, and the TCP proxy that leads to it, is called in statistics: its name, unless the mesh has a pattern for it.
func Stat(v view.View, u Upstream) string {
	return DestinationStat(v, u.Name(), u.Service.Hostname, u.Subset.GetName(), u.Port)
}

// DestinationStat is the same for a cluster by its name, and what it is made for. The port is the one that clients connect to.
func DestinationStat(v view.View, cluster, host, subset string, port *mesh.Port) string {
	pattern := v.Config.GetOutboundClusterStatName()
	if pattern == "" {
		return cluster
	}
	return naming.FillStat(pattern, host, subset, port, 0)
}
