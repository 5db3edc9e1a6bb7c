package outbound

import (
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/binding"
	"github.com/pgmesh/pgmesh/discovery/translate/filter"
	"github.com/pgmesh/pgmesh/discovery/translate/listener"
	"github.com/pgmesh/pgmesh/discovery/translate/need"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
)

// plan collects the listeners that services ask for. Services that share an address and a port
// share a listener: HTTP by their routes, TCP by chains for different destinations. Of services
// that cannot be told apart, the first, which is the oldest, keeps the listener.
type plan struct {
	filter.Context

	byAddress map[binding.Place]*planned
	order     []*planned
	dynamic   upstream.DynamicServices // of the egress listener that is being added
	needed    need.Egress              // by its routes
}

// planned is a listener that is not made yet.
type planned struct {
	binding.Binding

	port     uint32
	protocol mesh.Protocol // ProtocolSniffed once chains for HTTP and TCP live together
	chains   []listener.Chain
	// closed tells that the Sidecar names the port: what else is on that port stays out.
	closed bool
}

// closeAll keeps the listeners of ports that the Sidecar names to themselves.
func (p *plan) closeAll() {
	for _, l := range p.order {
		l.closed = true
	}
}

func (p *plan) add(o binding.Port) {
	switch {
	case o.Port.Protocol == mesh.ProtocolHTTPProxy:
		p.addProxy(o)
	case o.Port.Protocol.IsHTTP():
		p.addHTTP(o)
	case o.Port.Protocol.IsTCP(), o.Port.Protocol.IsSniffed():
		for _, address := range binding.Addresses(p.View, o) {
			p.addTCP(tcpPort{Context: p.Context, egress: o.Egress, service: o.Service, port: o.Port, address: address}, o.Explicit)
		}
	}
}

// addProxy makes a listener for clients that know that they speak to a proxy. They name the port
// that they want.
func (p *plan) addProxy(o binding.Port) {
	o.Binding = binding.Shared(p.View, o.Binding)
	if p.byAddress[o.At(o.Port.Number)] == nil {
		p.open(o.Binding, o.Port.Number, o.Port.Protocol, p.httpChain(o))
	}
}

func (p *plan) httpChain(o binding.Port) listener.Chain {
	requests := p.OutboundHTTP(o.Binds[0], o.Port, route.SharedName(o.Binding, o.Port), p.dynamic.On(o.Port), p.needed.OnPort(o.Port.Number))
	return listener.Chain{Filters: requests}
}

func (p *plan) addHTTP(o binding.Port) {
	o.Binding = binding.Shared(p.View, o.Binding)
	current := p.byAddress[o.At(o.Port.Number)]
	if current != nil && (current.closed || !current.protocol.IsTCP()) {
		return // the listener routes by the requests' hosts already
	}
	c, protocol := p.httpChain(o), o.Port.Protocol
	if o.Binds[0] == p.Wildcards()[0] {
		// Other protocols may come to the same port of unknown destinations.
		c.Protocols, c.Transport, protocol = listener.PlaintextHTTP, listener.RawBuffer, mesh.ProtocolSniffed
	}
	if current == nil {
		p.open(o.Binding, o.Port.Number, protocol, c)
		return
	}
	if !exclusive(o.Port.Protocol, current.protocol) {
		current.merge(c)
		current.protocol = mesh.ProtocolSniffed
	}
}

func (p *plan) addTCP(t tcpPort, explicit bool) {
	bind, port := t.address.Binds[0], t.port
	current := p.byAddress[binding.Place{Bind: bind, Port: port.Number}]
	if current != nil && current.closed {
		return
	}
	chains := t.chains()
	if port.Protocol.IsSniffed() && (current == nil || !current.protocol.IsSniffed()) {
		chains = append(chains, listener.Chain{
			Protocols: listener.PlaintextHTTP, Transport: listener.RawBuffer,
			Filters: p.OutboundHTTP(bind, port, route.SniffedName(p.View, t.service, t.port, t.address), nil, p.needed.OnPort(port.Number)),
		})
	}
	switch {
	case current == nil:
		p.open(binding.Binding{Binds: t.address.Binds, Explicit: explicit}, port.Number, port.Protocol, chains...)
	case exclusive(port.Protocol, current.protocol):
	case port.Protocol.IsSniffed() && current.protocol.IsHTTP():
		current.chains, current.protocol = nil, port.Protocol
		current.merge(chains...)
	default:
		if current.protocol.IsHTTP() || port.Protocol.IsSniffed() {
			current.protocol = mesh.ProtocolSniffed
		}
		current.merge(chains...)
	}
}

func (p *plan) open(b binding.Binding, port uint32, protocol mesh.Protocol, chains ...listener.Chain) {
	l := &planned{Binding: b, port: port, protocol: protocol}
	l.merge(chains...)
	p.byAddress[b.At(port)] = l
	p.order = append(p.order, l)
}

// merge adds chains for the connections that no chain is for yet: who comes first has them.
func (l *planned) merge(chains ...listener.Chain) {
	for _, c := range chains {
		rest := []listener.Chain{c}
		for _, there := range l.chains {
			var left []listener.Chain
			for _, r := range rest {
				left = append(left, r.Without(there)...)
			}
			rest = left
		}
		l.chains = append(l.chains, rest...)
	}
}

// exclusive reports whether two protocols cannot share a port, since a client of one waits for the
// server's greeting.
func exclusive(a, b mesh.Protocol) bool {
	greets := func(p mesh.Protocol) bool { return p == mesh.ProtocolMongo || p == mesh.ProtocolMySQL }
	return a != b && (greets(a) || greets(b))
}
