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
	// Authorizations has services decide about requests.
	Authorizations bool
}

// with has what either needs.
func (f Filters) with(other Filters) Filters {
	return Filters{Sessions: f.Sessions || other.Sessions, Authorizations: f.Authorizations || other.Authorizations}
}

// Rules tells which rules need something: by themselves, or since they lead to a service for which a
// policy has sessions.
func Rules(v view.View) func(*mesh.VirtualService) bool {
	sessions := v.Scope.WithSessions()
	return func(vs *mesh.VirtualService) bool { return of(vs, sessions) != Filters{} }
}

// of is what a rule needs, given the hosts for which policies have sessions.
func of(vs *mesh.VirtualService, sessions map[string]bool) Filters {
	leads := len(sessions) > 0 && slices.ContainsFunc(vs.RequestsTo(), func(host string) bool { return sessions[host] })
	return Filters{Sessions: leads || vs.HasSessions(), Authorizations: vs.HasAuthorizations()}
}

// OnServer is what the routes of a router need that it has under a name.
func OnServer(v view.View, routes string) Filters {
	frontend, sessions := v.Mesh.Frontend(v.Proxy), v.Scope.WithSessions()
	some := func(needs func(*mesh.VirtualService) bool) bool {
		return slices.ContainsFunc(frontend.Routes[routes], func(s *mesh.Server) bool { return frontend.HasRule(s, needs) })
	}
	return Filters{
		Sessions:       some(func(vs *mesh.VirtualService) bool { return of(vs, sessions).Sessions }),
		Authorizations: some((*mesh.VirtualService).HasAuthorizations),
	}
}

// Egress has what the routes of an egress listener of a sidecar need.
type Egress struct {
	of       *mesh.Egress
	rules    []needing       // those that need something
	sessions map[string]bool // hosts for which policies have sessions
}

// needing is a rule with what it needs.
type needing struct {
	*mesh.VirtualService

	needed Filters
}

// InEgress is of an egress listener, which may be nil.
func InEgress(v view.View, egress *mesh.Egress) Egress {
	out := Egress{of: egress, sessions: v.Scope.WithSessions()}
	if egress == nil {
		return out
	}
	for _, vs := range egress.VirtualServices {
		if needed := of(vs, out.sessions); needed != (Filters{}) {
			out.rules = append(out.rules, needing{vs, needed})
		}
	}
	return out
}

// OnPort is what the routes to the services with a port need. Where requests name their port, it is that
// of any.
func (e Egress) OnPort(port uint32) (out Filters) {
	if e.of == nil {
		return out
	}
	anyPort := port == 0 || e.of.AnyPort()
	for _, r := range e.rules {
		if anyPort || slices.ContainsFunc(e.of.Services, func(s *mesh.Service) bool { return s.Port(port) != nil && r.Serves(s.Hostname) }) {
			out = out.with(r.needed)
		}
	}
	out.Sessions = out.Sessions || len(e.sessions) > 0 && slices.ContainsFunc(e.of.Services, func(s *mesh.Service) bool {
		return e.sessions[s.Hostname] && (anyPort || s.Port(port) != nil)
	})
	return out
}
