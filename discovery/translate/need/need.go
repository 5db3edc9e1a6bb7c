// Package need says which filters a listener has to have because its routes configure them, and that
// other listeners do without.
package need

import (
	"slices"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Filters are those that routes need. The zero Filters are none.
type Filters struct {
	// Sessions has requests of one session go to one endpoint.
	Sessions bool
}

// OnServer is what the routes of a router need that it has under a name.
func OnServer(v view.View, routes string) (out Filters) {
	for _, s := range v.Mesh.Frontend(v.Proxy).Routes[routes] {
		for _, vs := range v.Mesh.Frontend(v.Proxy).RulesWithExtras(s) {
			out.add(vs)
		}
	}
	return out
}

// Egress has what the routes of an egress listener of a sidecar need.
type Egress struct {
	of    *mesh.Egress
	rules []*mesh.VirtualService // those that need something
}

// InEgress is of an egress listener, which may be nil.
func InEgress(of *mesh.Egress) Egress {
	out := Egress{of: of}
	if of == nil {
		return out
	}
	for _, vs := range of.VirtualServices {
		if vs.HasExtras() {
			out.rules = append(out.rules, vs)
		}
	}
	return out
}

// OnPort is what the routes to the services with a port need. Where requests name their port, it is that
// of any.
func (e Egress) OnPort(port uint32) (out Filters) {
	for _, vs := range e.rules {
		if port == 0 || e.of.AnyPort() || slices.ContainsFunc(e.of.Services, func(s *mesh.Service) bool { return s.Port(port) != nil && vs.Serves(s.Hostname) }) {
			out.add(vs)
		}
	}
	return out
}

func (f *Filters) add(vs *mesh.VirtualService) {
	f.Sessions = f.Sessions || vs.HasSessions()
}
