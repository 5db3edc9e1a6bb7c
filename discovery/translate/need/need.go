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
func Rules(v view.View) func(*mesh.VirtualService) bool {
	sessions := v.Scope.WithSessions()
	return func(vs *mesh.VirtualService) bool { return vs.HasExtras() || leadsTo(vs, sessions) }
}

func leadsTo(vs *mesh.VirtualService, hosts map[string]bool) bool {
	return len(hosts) > 0 && slices.ContainsFunc(vs.RequestsTo(), func(host string) bool { return hosts[host] })
}

// add adds what a rule needs, of those that need something.
func (f *Filters) add(vs *mesh.VirtualService, sessions map[string]bool) {
	f.Sessions = f.Sessions || vs.HasSessions() || leadsTo(vs, sessions)
}

// OnServer is what the routes of a router need that it has under a name.
func OnServer(v view.View, routes string) (out Filters) {
	frontend, sessions := v.Mesh.Frontend(v.Proxy), v.Scope.WithSessions()
	for _, s := range frontend.Routes[routes] {
		for vs := range frontend.RulesOn(s, Rules(v)) {
			out.add(vs, sessions)
		}
	}
	return out
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
	needing := Rules(v)
	for _, vs := range of.VirtualServices {
		if needing(vs) {
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
	for _, vs := range e.rules {
		if anyPort || slices.ContainsFunc(e.of.Services, func(s *mesh.Service) bool { return s.Port(port) != nil && vs.Serves(s.Hostname) }) {
			out.add(vs, e.sessions)
		}
	}
	if len(e.sessions) > 0 && !out.Sessions {
		out.Sessions = slices.ContainsFunc(e.of.Services, func(s *mesh.Service) bool { return e.sessions[s.Hostname] && (anyPort || s.Port(port) != nil) })
	}
	return out
}
