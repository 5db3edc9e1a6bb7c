package memory

import (
	"slices"
	"weak"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// Lists are the lists of routes that were made for proxies of the same traits in the same
// surroundings, and that at least one memory still has. Proxies that see the same of what a list is
// made from share it: of thousands of rules there is one list each, however many proxies see them.
type Lists struct {
	ruled  map[ruledKey][]weak.Pointer[ruledRoutes]
	direct map[directKey]weak.Pointer[virtualhost.List]
	sweep  int // how many lists start the next sweep
}

// NewLists returns an empty set of lists.
func NewLists() *Lists {
	return &Lists{ruled: map[ruledKey][]weak.Pointer[ruledRoutes]{}, direct: map[directKey]weak.Pointer[virtualhost.List]{}}
}

// ruledKey says whose routes a rule makes, and where.
type ruledKey struct {
	vs      *mesh.VirtualService
	port    uint32
	gateway string
	tls     bool
	shows   string
	source  string // the namespace of the proxies, if the rule asks for it
}

func keyOf(c route.Context) ruledKey {
	key := ruledKey{vs: c.Rule, port: c.Port, gateway: c.Gateways[0], tls: c.TLS, shows: c.Shows}
	for _, in := range c.Rule.Spec.GetHttp() {
		for _, match := range in.GetMatch() {
			if match.GetSourceNamespace() != "" {
				key.source = c.Proxy.Namespace
			}
		}
	}
	return key
}

// ruledRoutes are the routes of a rule, with what they were made from.
type ruledRoutes struct {
	hosts []string // that it sends requests to
	from  []destination
	list  *virtualhost.List
}

// ofRule returns the routes of a rule that sends requests to hosts.
func (l *Lists) ofRule(c route.Context, key ruledKey, hosts []string, from []destination) *ruledRoutes {
	for _, p := range l.ruled[key] {
		if known := p.Value(); known != nil && slices.Equal(known.from, from) {
			return known
		}
	}
	l.forget()
	made := &ruledRoutes{hosts: hosts, from: from, list: &virtualhost.List{Routes: c.Routes()}}
	l.ruled[key] = append(l.ruled[key], weak.Make(made))
	return made
}

// directKey is what the route to a service that no rule routes is made from.
type directKey struct {
	shape *mesh.Shape
	port  uint32
	rule  *mesh.DestinationRule

	session *gatewayapi.Session // by a policy
}

func directKeyOf(p *mesh.Proxy, scope *mesh.Scope, s *mesh.Service, port uint32) directKey {
	return directKey{s.Shape, port, scope.DestinationRule(p, s.Hostname), scope.Policies(s.Hostname).Session()}
}

// toService returns the route to a service that no rule routes.
func (l *Lists) toService(v view.View, key directKey, s *mesh.Service) *virtualhost.List {
	if known := l.direct[key].Value(); known != nil {
		return known
	}
	l.forget()
	made := &virtualhost.List{Routes: []*routev3.Route{route.Default(v, s, key.port)}}
	l.direct[key] = weak.Make(made)
	return made
}

// leastSwept is how many lists make a sweep worth its time.
const leastSwept = 1000

// forget drops what no memory has any more, once there are twice as many lists as after the last
// time.
func (l *Lists) forget() {
	if len(l.ruled)+len(l.direct) < max(l.sweep, leastSwept) {
		return
	}
	for key, lists := range l.ruled {
		if lists = slices.DeleteFunc(lists, isGone); len(lists) == 0 {
			delete(l.ruled, key)
		} else {
			l.ruled[key] = lists
		}
	}
	for key, list := range l.direct {
		if isGone(list) {
			delete(l.direct, key)
		}
	}
	l.sweep = 2 * (len(l.ruled) + len(l.direct))
}

func isGone[T any](p weak.Pointer[T]) bool { return p.Value() == nil }
