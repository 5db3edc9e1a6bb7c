package gateway

import (
	"slices"

	"github.com/pgmesh/pgmesh/discovery/hostname"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/filter"
	"github.com/pgmesh/pgmesh/discovery/translate/listener"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
)

// passthrough lets sidecars of other networks through to the services of this one. The server name
// that they ask for is that of a cluster. What passes is not decrypted. Connections that are not
// the mesh's do not pass.
func passthrough(c filter.Context, e *mesh.Entrance) []listener.Chain {
	var out []listener.Chain
	for _, b := range upstream.Backends(c.View) {
		if !withinAny(b.Service.Hostname, e.Server.Hosts) {
			continue
		}
		for _, u := range upstream.Passing(c.View, b) {
			out = append(out, listener.Chain{Names: []string{u.Name()}, Protocols: listener.MeshProtocols, Filters: c.Extended(u.Port.Number, c.Passing(u))})
		}
	}
	return out
}

func withinAny(host string, of []mesh.ServerHost) bool {
	return slices.ContainsFunc(of, func(h mesh.ServerHost) bool { return hostname.Within(host, h.Name) })
}
