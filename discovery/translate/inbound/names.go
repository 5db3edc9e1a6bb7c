package inbound

import (
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
)

func (in servedPort) httpName() string {
	if in.unnamed {
		return naming.VirtualInbound + "-catchall-http"
	}
	return in.tcpName()
}

func (in servedPort) tcpName() string {
	if in.unnamed {
		return naming.VirtualInbound
	}
	return naming.Listener(in.Binding.Binds[0], in.port)
}

func (in servedPort) statPrefix() string {
	if in.unnamed {
		return in.cluster
	}
	return "inbound_" + in.tcpName()
}

// tcpStat is what statistics call the TCP proxy of the port. The pattern of the mesh holds for
// unnamed ports, too.
func (in servedPort) tcpStat() string {
	pattern := in.Config.GetInboundClusterStatName()
	if pattern == "" {
		return in.cluster
	}
	return naming.FillStat(pattern, in.service, "", &mesh.Port{Name: in.portName, Number: in.number}, in.port)
}
