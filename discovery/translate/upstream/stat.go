package upstream

import (
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Stat is what statistics call a cluster, and the TCP proxy that leads to it: its name, unless the
// mesh has a pattern for it.
func Stat(v view.View, u Upstream) string {
	return DestinationStat(v, u.Name(), u.Service.Hostname, u.Subset.GetName(), u.Port)
}

// DestinationStat is Stat for a cluster of which only the name is known, and what it is for. The
// port is the one that clients connect to.
func DestinationStat(v view.View, cluster, host, subset string, port *mesh.Port) string {
	pattern := v.Config.GetOutboundClusterStatName()
	if pattern == "" {
		return cluster
	}
	return naming.FillStat(pattern, host, subset, port, 0)
}
