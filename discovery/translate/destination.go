package translate

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// destinationCluster names the cluster of a TCP destination.
func destinationCluster(v view.View, d *networking.Destination, port uint32) string {
	return naming.Destination(d, v.Scope.Service(d.GetHost()), port)
}
