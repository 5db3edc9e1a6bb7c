package naming

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// Destination names a destination's cluster. The service may be nil.
func Destination(d *networking.Destination, s *mesh.Service, port uint32) string {
	switch {
	case d.GetHost() == "":
		return UnknownService
	case d.GetPort() != nil:
		port = d.GetPort().GetNumber()
	case s != nil && len(s.Ports) == 1:
		port = s.Ports[0].Number
	}
	return Cluster(port, d.GetSubset(), d.GetHost())
}
