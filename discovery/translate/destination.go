package translate

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// destinationCluster names the cluster of a TCP destination.
func (v view) destinationCluster(d *networking.Destination, port uint32) string {
	return clusterOf(d, v.scope.Service(d.GetHost()), port)
}

// clusterOf names a destination's cluster. The service may be nil.
func clusterOf(d *networking.Destination, s *mesh.Service, port uint32) string {
	switch {
	case d.GetPort() != nil:
		port = d.GetPort().GetNumber()
	case s != nil && len(s.Ports) == 1:
		port = s.Ports[0].Number
	}
	return ClusterName(port, d.GetSubset(), d.GetHost())
}
