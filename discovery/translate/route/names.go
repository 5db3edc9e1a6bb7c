package route

import (
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/binding"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Names are those of a router's servers. For a sidecar they are the ports with HTTP, host:port for
// listeners that detect HTTP for a single service, sockets, and the proxy port's.
func Names(v view.View) []string {
	if !v.Sidecar() {
		return slices.Sorted(maps.Keys(v.Mesh.Frontend(v.Proxy).Routes))
	}
	names := map[string]bool{}
	if v.HTTPProxyPort() != 0 {
		names[naming.HTTPProxyRoute] = true
	}
	for _, egress := range v.Scope.Egress {
		for o := range binding.Ports(v, egress) {
			switch {
			case o.Port.Protocol.IsHTTP():
				names[SharedName(binding.Shared(v, o.Binding), o.Port)] = true
			case o.Port.Protocol.IsSniffed():
				for _, address := range binding.Addresses(v, o) {
					names[SniffedName(v, o.Service, o.Port, address)] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// SharedName names the route of a listener that several services share: by the port, or by the
// socket if there is none.
func SharedName(b binding.Binding, port *mesh.Port) string {
	if port.Number == 0 {
		return b.Binds[0]
	}
	return naming.Number(port.Number)
}

// SniffedName names the route of a port whose protocol is detected. It is the port's own if the
// listener is for one service.
func SniffedName(v view.View, s *mesh.Service, port *mesh.Port, at binding.Address) string {
	if port.Number == 0 || at.Binds[0] == v.Wildcards()[0] {
		return SharedName(binding.Binding{Binds: at.Binds}, port)
	}
	return s.Hostname + ":" + naming.Number(port.Number)
}

// EgressOf finds the egress listener that a route is for: the one with its port or its socket, or
// else the one for all ports.
func EgressOf(v view.View, name naming.Route) *mesh.Egress {
	for _, egress := range v.Scope.Egress {
		switch {
		case egress.Port == nil:
			return egress
		case egress.Port.Number != name.Port:
		case name.Port != 0 || egress.Bind == name.Full:
			return egress
		}
	}
	return nil
}
