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
	// Pickers are asked for the endpoints of requests to InferencePools.
	Pickers bool
}

// and is what either needs.
func (f Filters) and(other Filters) Filters {
	return Filters{
		Sessions:       f.Sessions || other.Sessions,
		Authorizations: f.Authorizations || other.Authorizations,
		Pickers:        f.Pickers || other.Pickers,
	}
}

// Rules tells which rules need something: by themselves, or since they lead to a service for which a
// policy has sessions, or to an InferencePool.
func Rules(v view.View) func(*mesh.VirtualService) bool {
	of := needing(v.Scope.WithSessions())
	return func(vs *mesh.VirtualService) bool { return of(vs) != Filters{} }
}

// needing says what a rule needs, given the hosts for which policies have sessions.
func needing(sessions map[string]bool) func(*mesh.VirtualService) Filters {
	return func(vs *mesh.VirtualService) Filters {
		return Filters{
			Sessions:       vs.HasSessions() || len(sessions) > 0 && slices.ContainsFunc(vs.RequestsTo(), func(host string) bool { return sessions[host] }),
			Authorizations: vs.HasAuthorizations(),
			Pickers:        vs.LeadsToPool(),
		}
	}
}

// OnServer is what the routes of a router need that it has under a name.
func OnServer(v view.View, routes string) (out Filters) {
	frontend, sessions := v.Mesh.Frontend(v.Proxy), v.Scope.WithSessions()
	of := needing(sessions)
	for _, s := range frontend.Routes[routes] {
		rules := frontend.NeedingRules(s)
		if len(sessions) > 0 { // any rule may lead there
			rules = frontend.Rules(s)
		}
		for _, vs := range rules {
			if some := of(vs); some != (Filters{}) && len(s.HostsFor(vs)) > 0 {
				out = out.and(some)
			}
		}
	}
	return out
}

// Egress has what the routes of an egress listener of a sidecar need.
type Egress struct {
	of       *mesh.Egress
	rules    []needingRule
	sessions map[string]bool // hosts for which policies have sessions
}

// needingRule is a rule that needs something.
type needingRule struct {
	*mesh.VirtualService

	needs Filters
}

// InEgress is of an egress listener, which may be nil.
func InEgress(v view.View, egress *mesh.Egress) Egress {
	out := Egress{of: egress, sessions: v.Scope.WithSessions()}
	if egress == nil {
		return out
	}
	needs := needing(out.sessions)
	for _, vs := range egress.VirtualServices {
		if some := needs(vs); some != (Filters{}) {
			out.rules = append(out.rules, needingRule{vs, some})
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
			out = out.and(r.needs)
		}
	}
	out.Sessions = out.Sessions || len(e.sessions) > 0 && slices.ContainsFunc(e.of.Services, func(s *mesh.Service) bool {
		return e.sessions[s.Hostname] && (anyPort || s.Port(port) != nil)
	})
	return out
}
