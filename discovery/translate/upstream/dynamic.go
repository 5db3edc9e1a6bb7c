package upstream

import (
	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// IsDynamic reports whether each request, or server name, says which host of a service it is for.
func IsDynamic(s *mesh.Service) bool {
	return s.Resolution == mesh.ResolutionDynamicDNS && mesh.IsWildcard(s.Hostname)
}

// dynamicProtocol reports whether a protocol names the host that is wanted.
func dynamicProtocol(p mesh.Protocol) bool {
	switch p {
	case mesh.ProtocolHTTP, mesh.ProtocolHTTP2, mesh.ProtocolGRPC, mesh.ProtocolTLS:
		return true
	default:
		return false
	}
}
