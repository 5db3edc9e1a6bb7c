package translate

import (
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
}

type listenerAddress struct {
	bind string
	port uint32
}

type plannedListener struct {
	binds    []string
	port     uint32
	protocol mesh.Protocol // ProtocolSniffed once chains for HTTP and TCP live together
	chains   []chain
}

func (v view) outboundListeners() []*listenerv3.Listener {
	plan := outboundPlan{view: v, byAddress: map[listenerAddress]*plannedListener{}}
	for _, egress := range v.scope.Egress {
		for _, s := range egress.Services {
			for _, port := range s.Ports {
				if v.canBind(port) {
					plan.add(egress, s, port)
				}
			}
		}
	}
	out := make([]*listenerv3.Listener, len(plan.order))
	for i, planned := range plan.order {
		out[i] = v.outboundListener(planned)
	}
	slices.SortFunc(out, func(a, b *listenerv3.Listener) int {
		if a.GetName() < b.GetName() {
			return -1
		}
		return 1
	})
	return out
}

// canBind reports whether a listener for the port can exist: without redirection the proxy must be allowed to open it,
// with redirection a listener for every address must not take what the proxy itself listens on.
func (v view) canBind(port *mesh.Port) bool {
	if !v.intercepted() {
		return !v.proxy.Unprivileged || port.Number >= 1024
	}
	own := slices.Contains(v.proxy.ReservedPorts, port.Number) ||
		port.Number == uint32(v.config.GetProxyListenPort()) || port.Number == uint32(v.config.GetProxyInboundListenPort())
	return !own || !port.Protocol.IsHTTP()
}

func (p *outboundPlan) add(egress *mesh.Egress, s *mesh.Service, port *mesh.Port) {
	switch {
	case port.Protocol.IsHTTP():
		p.addHTTP(port)
	case port.Protocol.IsTCP(), port.Protocol.IsSniffed():
		for _, address := range p.addressesOf(s) {
			p.addTCP(outboundTCP{view: p.view, egress: egress, service: s, port: port, address: address})
		}
	}
}

// addressesOf lists where a TCP service is listened for. Without redirection all services share loopback.
func (p *outboundPlan) addressesOf(s *mesh.Service) []tcpAddress {
	if !p.intercepted() {
		return []tcpAddress{{binds: p.loopbacks()}}
	}
	out := make([]tcpAddress, len(s.Addresses))
	for i, a := range s.Addresses {
		out[i] = p.tcpAddress(a)
	}
	return out
}

func (p *outboundPlan) addHTTP(port *mesh.Port) {
	binds, opts := p.loopbacks(), chain{}
	protocol := port.Protocol
	if p.intercepted() {
		// Other protocols may come to the same port of unknown destinations.
		binds, protocol = p.wildcards(), mesh.ProtocolSniffed
		opts = chain{protocols: plaintextHTTP, transport: rawBuffer}
	}
	current := p.byAddress[listenerAddress{binds[0], port.Number}]
	if current != nil && !current.protocol.IsTCP() {
		return // the listener routes by the requests' hosts already
	}
	opts.filters = []*listenerv3.Filter{p.outboundHTTP(binds[0], port, number(port.Number))}
	if current == nil {
		p.plan(binds, port.Number, protocol, opts)
		return
	}
	if !exclusive(port.Protocol, current.protocol) {
		current.merge(opts)
		current.protocol = mesh.ProtocolSniffed
	}
}

func (p *outboundPlan) addTCP(t outboundTCP) {
	bind, port := t.address.binds[0], t.port
	current := p.byAddress[listenerAddress{bind, port.Number}]
	chains := t.chains()
	if port.Protocol.IsSniffed() && (current == nil || !current.protocol.IsSniffed()) {
		chains = append(chains, chain{
			protocols: plaintextHTTP, transport: rawBuffer,
			filters: []*listenerv3.Filter{p.outboundHTTP(bind, port, p.sniffedRoute(t))},
		})
	}
	switch {
	case current == nil:
		p.plan(t.address.binds, port.Number, port.Protocol, chains...)
	case exclusive(port.Protocol, current.protocol):
	case port.Protocol.IsSniffed() && current.protocol.IsHTTP():
		current.chains, current.protocol = chains, port.Protocol
	default:
		if current.protocol.IsHTTP() || port.Protocol.IsSniffed() {
			current.protocol = mesh.ProtocolSniffed
		}
		current.merge(chains...)
	}
}

// sniffedRoute names the route of a port whose protocol is detected: its own where the listener is for one service.
func (p *outboundPlan) sniffedRoute(t outboundTCP) string {
	if t.address.binds[0] == p.wildcards()[0] {
		return number(t.port.Number)
	}
	return t.service.Hostname + ":" + number(t.port.Number)
}

func (p *outboundPlan) plan(binds []string, port uint32, protocol mesh.Protocol, chains ...chain) {
	l := &plannedListener{binds: binds, port: port, protocol: protocol, chains: chains}
	p.byAddress[listenerAddress{binds[0], port}] = l
	p.order = append(p.order, l)
}

// merge adds the chains that do not conflict with those there.
func (l *plannedListener) merge(chains ...chain) {
	for _, c := range chains {
		if !slices.ContainsFunc(l.chains, c.conflicts) {
			l.chains = append(l.chains, c)
		}
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
		Address:                          socketAddress(p.binds[0], p.port),
		AdditionalAddresses:              extraAddresses(p.binds, p.port),
		TrafficDirection:                 corev3.TrafficDirection_OUTBOUND,
		ContinueOnListenerFiltersTimeout: true,
		ConnectionBalanceConfig:          exactBalance(v.proxy.OutboundExactBalance),
	}
	if v.intercepted() {
		l.BindToPort = no
	} else {
		l.MaxConnectionsToAcceptPerSocketEvent = acceptOneByOne
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
