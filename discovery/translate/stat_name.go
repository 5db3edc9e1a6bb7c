package translate

import (
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
)

// tcpStat is what the TCP proxy of a port is called: by the pattern, also where nobody names the port.
func (in inboundPort) tcpStat() string {
	pattern := in.Config.GetInboundClusterStatName()
	if pattern == "" {
		return in.cluster
	}
	return naming.FillStat(pattern, in.service, "", &mesh.Port{Name: in.portName, Number: in.number}, in.port)
}
