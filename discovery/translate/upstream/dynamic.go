package upstream

import (
	"slices"

	"github.com/pgmesh/pgmesh/discovery/hostname"
	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// IsDynamic reports whether each request, or server name, says which host of a service it is for.
func IsDynamic(s *mesh.Service) bool {
	return s.Resolution == mesh.ResolutionDynamicDNS && hostname.IsWildcard(s.Hostname)
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

// DynamicServices are services of an egress listener whose requests say which host they are for.
type DynamicServices []*mesh.Service

// DynamicIn finds the dynamic services of an egress listener.
func DynamicIn(e *mesh.Egress) (out DynamicServices) {
	for _, s := range e.Services {
		if IsDynamic(s) {
			out = append(out, s)
		}
	}
	return out
}

// On keeps those that take requests on the port. Requests to an HTTP proxy name the port
// themselves: there they may be for any.
func (d DynamicServices) On(port *mesh.Port) []*mesh.Service {
	return slices.DeleteFunc(slices.Clone(d), func(s *mesh.Service) bool {
		own := s.Port(port.Number)
		return port.Number != 0 && port.Protocol != mesh.ProtocolHTTPProxy && (own == nil || !own.Protocol.IsHTTP())
	})
}
