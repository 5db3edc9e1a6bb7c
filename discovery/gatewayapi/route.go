package gatewayapi

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// Route is a route of any kind.
type Route struct {
	Resource *kinds.Resource
	// Problems are those that it has wherever it is attached.
	Problems []Problem
	// Entries are the ServiceEntries that it names, as parents or backends.
	Entries []kinds.Key
	// Abroad are the namespaces of others that its rules name something in: what those grant
	// matters.
	Abroad []string
	// Asked are the hosts of Services and Hostnames that it names: whether they are there matters to
	// its status.
	Asked []string

	spec routeSpec
}

// Key is that of the route.
func (r *Route) Key() kinds.Key { return r.Resource.Key() }

// ReadRoute reads a route.
func ReadRoute(r *kinds.Resource) *Route {
	route := &Route{Resource: r}
	spec, err := specOf[routeSpec](r)
	if err != nil {
		route.Problems = unreadable(r, err)
		return route
	}
	if len(spec.Rules) == 0 && r.Kind == KindHTTPRoute {
		spec.Rules = []ruleSpec{{}} // what the API has in place of none: every request is answered with 500
	}
	route.spec = spec
	for _, p := range spec.ParentRefs {
		route.note(p.resolved(group, KindGateway.Name, r.Namespace), false)
	}
	for _, rule := range spec.Rules {
		for _, b := range rule.BackendRefs {
			route.note(b.resolved("", "Service", r.Namespace), true)
		}
		for _, f := range rule.Filters {
			if f.RequestMirror != nil {
				route.note(f.RequestMirror.BackendRef.resolved("", "Service", r.Namespace), true)
			}
			if f.ExternalAuth != nil {
				route.note(f.ExternalAuth.BackendRef.resolved("", "Service", r.Namespace), true)
			}
		}
	}
	return route
}

// note remembers what the route depends on beside its parents: a parent, or a backend.
func (r *Route) note(to target, backend bool) {
	if to.is(groupIstio, KindServiceEntry.Name) {
		r.Entries = withOne(r.Entries, to.entryKey())
	}
	if host := to.serviceHost(); host != "" {
		r.Asked = withOne(r.Asked, host)
	}
	if backend && to.namespace != r.Resource.Namespace {
		r.Abroad = withOne(r.Abroad, to.namespace)
	}
}

// withOne is a list with an element, once.
func withOne[T comparable](list []T, one T) []T {
	if slices.Contains(list, one) {
		return list
	}
	return append(list, one)
}

// Parents lists the Gateways and ListenerSets that it names, each once.
func (r *Route) Parents() (out []kinds.Key) {
	for _, p := range r.spec.ParentRefs {
		if key, ok := p.listens(r.Resource.Namespace); ok && !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	return out
}

// listens returns the parent if that has listeners: a Gateway or a ListenerSet.
func (p parentSpec) listens(namespace string) (kinds.Key, bool) {
	to := p.resolved(group, KindGateway.Name, namespace)
	for _, kind := range []*kinds.Kind{KindGateway, KindListenerSet} {
		if to.is(group, kind.Name) {
			return kinds.Key{Kind: kind, Namespace: to.namespace, Name: to.name}, true
		}
	}
	return kinds.Key{}, false
}

// Piece is what a route says of one host, on one listener or to the sidecars.
type Piece struct {
	Of       *kinds.Resource // the route
	Key      Key
	Hostname string // as the route has it: on a listener it may stand for fewer names; "" for sidecars
	HTTP     []*networking.HTTPRoute
	Extras   extras // beside some of the HTTP routes
	TCP      []*networking.TCPRoute
	TLS      []*networking.TLSRoute
}

// Attached is what a route comes to.
type Attached struct {
	Pieces   []*Piece
	Problems []Problem
	Status   *Status
	// At are the listeners that have taken it.
	At []At
	// Leads are the hosts to which they send by it.
	Leads []string
}

// At is a listener, by the Gateway or the ListenerSet that it stands in and its name.
type At struct {
	Of      kinds.Key
	Section string
}

// Attach returns what the route says to whom, and what is wrong with that. Listeners are those of a
// Gateway or a ListenerSet, beside which a Gateway may have others.
func (r *Route) Attach(listeners func(kinds.Key) []*Listener, world World) Attached {
	a := attachment{
		Route: r, listeners: listeners,
		gateway: &conversion{route: r, world: world, checked: true}, mesh: &conversion{route: r, world: world},
	}
	for i, p := range r.spec.ParentRefs {
		a.attach(i, p)
	}
	return Attached{Pieces: a.pieces, Problems: a.allProblems(), Status: &a.status, At: a.taken, Leads: a.gatewayRules.hosts()}
}

// allProblems are those of the route and of what was converted for a parent that takes it.
func (a *attachment) allProblems() []Problem {
	problems := slices.Concat(a.Problems, a.problems)
	if a.gatewayRules != nil {
		problems = append(problems, a.gateway.problems...)
	} else if a.meshRules != nil {
		problems = append(problems, a.mesh.problems...)
	}
	return problems
}
