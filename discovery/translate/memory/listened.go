package memory

import (
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/binding"
	"github.com/pgmesh/pgmesh/discovery/translate/need"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/scoped"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Listened is what outbound listeners are made from beside traits and surroundings. The same makes
// the same listeners, so it can be compared. Services that share a listener by their routes are in
// it as the listener alone: one more of them changes nothing. What routers listen for is in their
// Frontend, and in ByRoutes.
func Listened(v view.View) []any {
	l := listened{View: v}
	for _, egress := range v.Scope.Egress {
		l.add(egress)
	}
	shows := len(upstream.Shown(v)) > 0
	if l.connected || !v.Sidecar() { // connections may be sent to any of the services
		for _, b := range upstream.Backends(v) {
			at := byAddress{shape: b.Service.Shape, rule: b.Rule}
			if shows {
				at.policies = b.Policies
			}
			l.all = append(l.all, at)
		}
	}
	return l.all
}

// byRoutes is what a router's listener has by the routes for its requests.
type byRoutes struct {
	routes string
	needed need.Filters
	scoped bool
}

// ByRoutes is what the listeners of a router are made from beside that, as it depends on the rules for
// requests, of which others may come at any time.
func ByRoutes(v view.View) (all []any) {
	if v.Sidecar() {
		return nil
	}
	for _, name := range route.Names(v) {
		all = append(all, byRoutes{name, need.OnServer(v, name), scoped.On(v, name)})
	}
	return all
}

type listened struct {
	view.View

	all       []any
	connected bool // there are rules for connections
}

// byRequests is a listener that routes by what requests say.
type byRequests struct {
	bind     string
	port     uint32
	protocol mesh.Protocol
	explicit bool
	needed   need.Filters
}

// byAddress is a port of a service that is told apart by where clients connect to.
type byAddress struct {
	shape *mesh.Shape
	port  *mesh.Port
	rule  *mesh.DestinationRule
	// policies are those that may ask for TLS, if that leads to another cluster.
	policies *mesh.BackendPolicies

	needed need.Filters
}

func (l *listened) add(egress *mesh.Egress) {
	seen, needed := map[binding.Place]bool{}, need.InEgress(l.View, egress)
	l.all = append(l.all, egress.Port == nil, needed.OnPort(0))
	for o := range binding.Ports(l.View, egress) {
		if upstream.IsDynamic(o.Service) {
			l.all = append(l.all, o.Service.Shape)
		}
		if !o.Port.Protocol.IsHTTP() && o.Port.Protocol != mesh.ProtocolHTTPProxy {
			at := byAddress{shape: o.Service.Shape, port: o.Port, rule: l.Scope.DestinationRule(l.Proxy, o.Service.Hostname)}
			if o.Port.Protocol.IsSniffed() {
				at.needed = needed.OnPort(o.Port.Number)
			}
			l.all = append(l.all, at)
			continue
		}
		b := binding.Shared(l.View, o.Binding)
		if at := b.At(o.Port.Number); !seen[at] {
			seen[at] = true
			l.all = append(l.all, byRequests{at.Bind, at.Port, o.Port.Protocol, b.Explicit, needed.OnPort(at.Port)})
		}
	}
	for _, vs := range egress.VirtualServices {
		if vs.ForConnections() {
			l.all, l.connected = append(l.all, vs), true
		}
	}
}
