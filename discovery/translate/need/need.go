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

// Rules tells which rules need something: by themselves, or since they lead to a service for which a
// policy has sessions.
func Rules(v view.View) func(*mesh.VirtualService) bool { return needing(v.Scope.WithSessions()) }

// needing does so, given the hosts for which policies have sessions.
func needing(sessions map[string]bool) func(*mesh.VirtualService) bool {
	return func(vs *mesh.VirtualService) bool {
		return vs.HasSessions() || len(sessions) > 0 && slices.ContainsFunc(vs.RequestsTo(), func(host string) bool { return sessions[host] })
	}
}

// OnServer is what the routes of a router need that it has under a name.
func OnServer(v view.View, routes string) Filters {
	frontend, needs := v.Mesh.Frontend(v.Proxy), Rules(v)
	return Filters{Sessions: slices.ContainsFunc(frontend.Routes[routes], func(s *mesh.Server) bool { return frontend.HasRule(s, needs) })}
}

// Egress has what the routes of an egress listener of a sidecar need.
type Egress struct {
	of       *mesh.Egress
	rules    []*mesh.VirtualService // those that need something
	sessions map[string]bool        // hosts for which policies have sessions
}

// InEgress is of an egress listener, which may be nil.
func InEgress(v view.View, of *mesh.Egress) Egress {
	out := Egress{of: of, sessions: v.Scope.WithSessions()}
	if of == nil {
		return out
	}
	needs := needing(out.sessions)
	for _, vs := range of.VirtualServices {
		if needs(vs) {
			out.rules = append(out.rules, vs)
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
	out.Sessions = slices.ContainsFunc(e.rules, func(vs *mesh.VirtualService) bool {
		return anyPort || slices.ContainsFunc(e.of.Services, func(s *mesh.Service) bool { return s.Port(port) != nil && vs.Serves(s.Hostname) })
	}) || len(e.sessions) > 0 && slices.ContainsFunc(e.of.Services, func(s *mesh.Service) bool {
		return e.sessions[s.Hostname] && (anyPort || s.Port(port) != nil)
	})
	return out
}
