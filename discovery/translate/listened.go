package translate

import "github.com/pgmesh/pgmesh/discovery/mesh"

// Listened is what outbound listeners are made from beside traits and surroundings, to be compared: the same makes the same listeners.
// Of services that share a listener by their routes it has the listener alone, so that one more of them changes nothing. What routers
// listen for is in their Frontend.
func (s View) Listened() []any {
	l := listened{view: s.view}
	for _, egress := range s.scope.Egress {
		l.add(egress)
	}
	if l.connected || !s.sidecar() { // connections may be sent to any of the services
		for _, b := range s.backends() {
			l.all = append(l.all, byAddress{shape: b.Service.Shape, rule: b.Rule})
		}
	}
	return l.all
}

type listened struct {
	view

	all       []any
	connected bool // there are rules for connections
}

// byRequests is a listener that routes by what requests say.
type byRequests struct {
	bind     string
	port     uint32
	protocol mesh.Protocol
	explicit bool
}

// byAddress is one port of a service that is told apart by where clients connect to.
type byAddress struct {
	shape *mesh.Shape
	port  *mesh.Port
	rule  *mesh.DestinationRule
}

func (l *listened) add(egress *mesh.Egress) {
	l.all = append(l.all, egress.Port == nil)
	seen := map[listenerAddress]bool{}
	for o := range l.outboundPorts(egress) {
		if isDynamic(o.service) {
			l.all = append(l.all, o.service.Shape)
		}
		if !o.port.Protocol.IsHTTP() && o.port.Protocol != mesh.ProtocolHTTPProxy {
			l.all = append(l.all, byAddress{o.service.Shape, o.port, l.scope.DestinationRule(l.proxy, o.service.Hostname)})
			continue
		}
		b := l.shared(o.binding)
		if at := (listenerAddress{b.binds[0], o.port.Number}); !seen[at] {
			seen[at] = true
			l.all = append(l.all, byRequests{at.bind, at.port, o.port.Protocol, b.explicit})
		}
	}
	for _, vs := range egress.VirtualServices {
		if ForConnections(vs) {
			l.all, l.connected = append(l.all, vs), true
		}
	}
}
