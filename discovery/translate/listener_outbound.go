package translate

import (
	"cmp"
	"iter"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// outboundPlan collects the listeners that services ask for. Several services share a listener where they share address
// and port: HTTP by their routes, TCP by chains for different destinations. Of services that cannot be told apart the
// first, which is the oldest, keeps the listener.
type outboundPlan struct {
	view

	byAddress map[listenerAddress]*plannedListener
	order     []*plannedListener
	dynamic   dynamicServices // of the egress listener that is being added
}

type listenerAddress struct {
	bind string
	port uint32
}

type plannedListener struct {
	binding

	port     uint32
	protocol mesh.Protocol // ProtocolSniffed once chains for HTTP and TCP live together
	chains   []chain
	// closed listeners were made for a port that the Sidecar names: what else is on that port stays out.
	closed bool
}

func (v view) outboundListeners() []*listenerv3.Listener {
	plan := outboundPlan{view: v, byAddress: map[listenerAddress]*plannedListener{}}
	for _, egress := range v.scope.Egress {
		if egress.Port == nil {
			plan.closeAll()
		}
		plan.dynamic = dynamicIn(egress)
		for o := range v.outboundPorts(egress) {
			plan.add(o)
		}
	}
	out := v.besides(v.ownPlaces(), plan.order)
	slices.SortFunc(out, func(a, b *listenerv3.Listener) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

func (p *outboundPlan) closeAll() {
	for _, planned := range p.order {
		planned.closed = true
	}
}

// outboundPort is a service that is listened for on a port.
type outboundPort struct {
	binding

	egress  *mesh.Egress
	service *mesh.Service
	port    *mesh.Port
}

// outboundPorts lists what an egress listener listens for: its services on its port, or on every port of theirs.
func (v view) outboundPorts(egress *mesh.Egress) iter.Seq[outboundPort] {
	b := v.egressBinding(egress)
	return func(yield func(outboundPort) bool) {
		for _, s := range egress.Services {
			ports := s.Ports
			if egress.Port != nil {
				ports = []*mesh.Port{egress.Port}
			}
			for _, port := range ports {
				if v.canBind(b, port) && !yield(outboundPort{binding: b, egress: egress, service: s, port: port}) {
					return
				}
			}
		}
	}
}

func (p *outboundPlan) add(o outboundPort) {
	switch {
	case o.port.Protocol == mesh.ProtocolHTTPProxy:
		p.addProxy(o)
	case o.port.Protocol.IsHTTP():
		p.addHTTP(o)
	case o.port.Protocol.IsTCP(), o.port.Protocol.IsSniffed():
		for _, address := range p.addressesOf(o) {
			p.addTCP(outboundTCP{view: p.view, egress: o.egress, service: o.service, port: o.port, address: address}, o.explicit)
		}
	}
}

// addressesOf lists where a TCP service is listened for. Without redirection all services share loopback. Allocated
// addresses share a listener, and those that people gave have one each.
func (v view) addressesOf(o outboundPort) []tcpAddress {
	if len(o.binds) > 0 {
		return []tcpAddress{{binds: o.binds, shared: true}}
	}
	if o.service.ByWorkload(o.port) {
		return v.workloadAddresses(o)
	}
	addresses := o.service.AddressesFor(v.proxy)
	if len(o.service.Allocated) > 0 && addresses[0] != mesh.Unspecified {
		return []tcpAddress{{binds: addresses}}
	}
	out := make([]tcpAddress, len(addresses))
	for i, a := range addresses {
		out[i] = v.tcpAddress(a)
	}
	return out
}

// addProxy makes a listener for clients that know that they speak to a proxy, and name the port that they want themselves.
func (p *outboundPlan) addProxy(o outboundPort) {
	o.binding = p.shared(o.binding)
	if p.byAddress[listenerAddress{o.binds[0], o.port.Number}] == nil {
		p.plan(o.binding, o.port.Number, o.port.Protocol, p.httpChain(o))
	}
}

func (p *outboundPlan) httpChain(o outboundPort) chain {
	filter := p.outboundHTTP(o.binds[0], o.port, sharedRoute(o.binding, o.port), p.dynamic.on(o.port))
	return chain{filters: []*listenerv3.Filter{filter}}
}

func (p *outboundPlan) addHTTP(o outboundPort) {
	o.binding = p.shared(o.binding)
	current := p.byAddress[listenerAddress{o.binds[0], o.port.Number}]
	if current != nil && (current.closed || !current.protocol.IsTCP()) {
		return // the listener routes by the requests' hosts already
	}
	c, protocol := p.httpChain(o), o.port.Protocol
	if o.binds[0] == p.wildcards()[0] {
		// Other protocols may come to the same port of unknown destinations.
		c.protocols, c.transport, protocol = plaintextHTTP, rawBuffer, mesh.ProtocolSniffed
	}
	if current == nil {
		p.plan(o.binding, o.port.Number, protocol, c)
		return
	}
	if !exclusive(o.port.Protocol, current.protocol) {
		current.merge(c)
		current.protocol = mesh.ProtocolSniffed
	}
}

func (p *outboundPlan) addTCP(t outboundTCP, explicit bool) {
	bind, port := t.address.binds[0], t.port
	current := p.byAddress[listenerAddress{bind, port.Number}]
	if current != nil && current.closed {
		return
	}
	chains := t.chains()
	if port.Protocol.IsSniffed() && (current == nil || !current.protocol.IsSniffed()) {
		chains = append(chains, chain{
			protocols: plaintextHTTP, transport: rawBuffer,
			filters: []*listenerv3.Filter{p.outboundHTTP(bind, port, p.sniffedRoute(t), nil)},
		})
	}
	switch {
	case current == nil:
		p.plan(binding{binds: t.address.binds, explicit: explicit}, port.Number, port.Protocol, chains...)
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

// sharedRoute names the route of a listener that several services share: by the port, or by the socket where there is none.
func sharedRoute(b binding, port *mesh.Port) string {
	if port.Number == 0 {
		return b.binds[0]
	}
	return number(port.Number)
}

// sniffedRoute names the route of a port whose protocol is detected: its own where the listener is for one service.
func (v view) sniffedRoute(t outboundTCP) string {
	if t.port.Number == 0 || t.address.binds[0] == v.wildcards()[0] {
		return sharedRoute(binding{binds: t.address.binds}, t.port)
	}
	return t.service.Hostname + ":" + number(t.port.Number)
}

func (p *outboundPlan) plan(b binding, port uint32, protocol mesh.Protocol, chains ...chain) {
	l := &plannedListener{binding: b, port: port, protocol: protocol}
	l.merge(chains...)
	p.byAddress[listenerAddress{b.binds[0], port}] = l
	p.order = append(p.order, l)
}

// merge adds the chains, for the connections that none of those there is for: the first that names them has them.
func (l *plannedListener) merge(chains ...chain) {
	for _, c := range chains {
		rest := []chain{c}
		for _, there := range l.chains {
			var left []chain
			for _, r := range rest {
				left = append(left, r.without(there)...)
			}
			rest = left
		}
		l.chains = append(l.chains, rest...)
	}
}

// exclusive reports whether two protocols cannot share a port because a client of one waits for the server's greeting.
func exclusive(a, b mesh.Protocol) bool {
	greets := func(p mesh.Protocol) bool { return p == mesh.ProtocolMongo || p == mesh.ProtocolMySQL }
	return a != b && (greets(a) || greets(b))
}

func (v view) outboundListener(p *plannedListener) *listenerv3.Listener {
	l := &listenerv3.Listener{
		Name:                             listenerName(p.binds[0], p.port),
		Address:                          bindAddress(p.binds[0], p.port),
		AdditionalAddresses:              extraAddresses(p.binds, p.port),
		TrafficDirection:                 corev3.TrafficDirection_OUTBOUND,
		ContinueOnListenerFiltersTimeout: true,
		ConnectionBalanceConfig:          exactBalance(v.proxy.OutboundExactBalance),
	}
	if p.explicit {
		l.MaxConnectionsToAcceptPerSocketEvent = acceptOneByOne
	} else {
		l.BindToPort = no
	}
	v.inspect(l, p.chains)
	v.addChains(l, p.chains)
	return l
}

// inspect adds the listener filters that the chains are told apart by.
func (v view) inspect(l *listenerv3.Listener, chains []chain) {
	l.ListenerFiltersTimeout = noDuration
	if slices.ContainsFunc(chains, func(c chain) bool { return len(c.names) > 0 }) {
		l.ListenerFilters = append(l.ListenerFilters, tlsInspector)
	}
	if slices.ContainsFunc(chains, func(c chain) bool { return len(c.protocols) > 0 }) {
		l.ListenerFilters = append(l.ListenerFilters, httpInspector)
		l.ListenerFiltersTimeout = v.config.GetProtocolDetectionTimeout()
	}
}

// addChains gives the listener its chains. What none of them is for goes the way of unknown destinations.
func (v view) addChains(l *listenerv3.Listener, chains []chain) {
	for _, c := range chains {
		if c.matchesAll() {
			l.DefaultFilterChain = c.build()
		} else {
			l.FilterChains = append(l.FilterChains, c.build())
		}
	}
	switch {
	case l.GetDefaultFilterChain() == nil:
		l.DefaultFilterChain = &listenerv3.FilterChain{
			Name: "PassthroughFilterChain", FilterChainMatch: &listenerv3.FilterChainMatch{}, Filters: v.unmatchedTCP(),
		}
	case len(l.GetFilterChains()) == 0:
		l.FilterChains, l.DefaultFilterChain = []*listenerv3.FilterChain{l.GetDefaultFilterChain()}, nil
	}
}
