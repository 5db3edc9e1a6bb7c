package translate

import (
	"cmp"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/binding"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// outboundPlan collects the listeners that services ask for. Several services share a listener where they share address
// and port: HTTP by their routes, TCP by chains for different destinations. Of services that cannot be told apart the
// first, which is the oldest, keeps the listener.
type outboundPlan struct {
	filtering

	byAddress map[binding.Place]*plannedListener
	order     []*plannedListener
	dynamic   dynamicServices // of the egress listener that is being added
}

type plannedListener struct {
	binding.Binding

	port     uint32
	protocol mesh.Protocol // ProtocolSniffed once chains for HTTP and TCP live together
	chains   []chain
	// closed listeners were made for a port that the Sidecar names: what else is on that port stays out.
	closed bool
}

func (v filtering) outboundListeners() []*listenerv3.Listener {
	plan := outboundPlan{filtering: v, byAddress: map[binding.Place]*plannedListener{}}
	for _, egress := range v.Scope.Egress {
		if egress.Port == nil {
			plan.closeAll()
		}
		plan.dynamic = dynamicIn(egress)
		for o := range binding.Ports(v.View, egress) {
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

func (p *outboundPlan) add(o binding.Port) {
	switch {
	case o.Port.Protocol == mesh.ProtocolHTTPProxy:
		p.addProxy(o)
	case o.Port.Protocol.IsHTTP():
		p.addHTTP(o)
	case o.Port.Protocol.IsTCP(), o.Port.Protocol.IsSniffed():
		for _, address := range binding.Addresses(p.View, o) {
			p.addTCP(outboundTCP{filtering: p.filtering, egress: o.Egress, service: o.Service, port: o.Port, address: address}, o.Explicit)
		}
	}
}

// addProxy makes a listener for clients that know that they speak to a proxy, and name the port that they want themselves.
func (p *outboundPlan) addProxy(o binding.Port) {
	o.Binding = binding.Shared(p.View, o.Binding)
	if p.byAddress[o.At(o.Port.Number)] == nil {
		p.plan(o.Binding, o.Port.Number, o.Port.Protocol, p.httpChain(o))
	}
}

func (p *outboundPlan) httpChain(o binding.Port) chain {
	filter := p.outboundHTTP(o.Binds[0], o.Port, route.SharedName(o.Binding, o.Port), p.dynamic.on(o.Port))
	return chain{filters: []*listenerv3.Filter{filter}}
}

func (p *outboundPlan) addHTTP(o binding.Port) {
	o.Binding = binding.Shared(p.View, o.Binding)
	current := p.byAddress[o.At(o.Port.Number)]
	if current != nil && (current.closed || !current.protocol.IsTCP()) {
		return // the listener routes by the requests' hosts already
	}
	c, protocol := p.httpChain(o), o.Port.Protocol
	if o.Binds[0] == p.Wildcards()[0] {
		// Other protocols may come to the same port of unknown destinations.
		c.protocols, c.transport, protocol = plaintextHTTP, rawBuffer, mesh.ProtocolSniffed
	}
	if current == nil {
		p.plan(o.Binding, o.Port.Number, protocol, c)
		return
	}
	if !exclusive(o.Port.Protocol, current.protocol) {
		current.merge(c)
		current.protocol = mesh.ProtocolSniffed
	}
}

func (p *outboundPlan) addTCP(t outboundTCP, explicit bool) {
	bind, port := t.address.Binds[0], t.port
	current := p.byAddress[binding.Place{Bind: bind, Port: port.Number}]
	if current != nil && current.closed {
		return
	}
	chains := t.chains()
	if port.Protocol.IsSniffed() && (current == nil || !current.protocol.IsSniffed()) {
		chains = append(chains, chain{
			protocols: plaintextHTTP, transport: rawBuffer,
			filters: []*listenerv3.Filter{p.outboundHTTP(bind, port, route.SniffedName(p.View, t.service, t.port, t.address), nil)},
		})
	}
	switch {
	case current == nil:
		p.plan(binding.Binding{Binds: t.address.Binds, Explicit: explicit}, port.Number, port.Protocol, chains...)
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

func (p *outboundPlan) plan(b binding.Binding, port uint32, protocol mesh.Protocol, chains ...chain) {
	l := &plannedListener{Binding: b, port: port, protocol: protocol}
	l.merge(chains...)
	p.byAddress[b.At(port)] = l
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

func (v filtering) outboundListener(p *plannedListener) *listenerv3.Listener {
	l := &listenerv3.Listener{
		Name:                             naming.Listener(p.Binds[0], p.port),
		Address:                          message.BindAddress(p.Binds[0], p.port),
		AdditionalAddresses:              extraAddresses(p.Binds, p.port),
		TrafficDirection:                 corev3.TrafficDirection_OUTBOUND,
		ContinueOnListenerFiltersTimeout: true,
		ConnectionBalanceConfig:          exactBalance(v.Proxy.OutboundExactBalance),
	}
	if p.Explicit {
		l.MaxConnectionsToAcceptPerSocketEvent = acceptOneByOne
	} else {
		l.BindToPort = message.No
	}
	inspect(v.View, l, p.chains)
	v.addChains(l, p.chains)
	return l
}

// inspect adds the listener filters that the chains are told apart by.
func inspect(v view.View, l *listenerv3.Listener, chains []chain) {
	l.ListenerFiltersTimeout = message.NoDuration
	if slices.ContainsFunc(chains, func(c chain) bool { return len(c.names) > 0 }) {
		l.ListenerFilters = append(l.ListenerFilters, tlsInspector)
	}
	if slices.ContainsFunc(chains, func(c chain) bool { return len(c.protocols) > 0 }) {
		l.ListenerFilters = append(l.ListenerFilters, httpInspector)
		l.ListenerFiltersTimeout = v.Config.GetProtocolDetectionTimeout()
	}
}

// addChains gives the listener its chains. What none of them is for goes the way of unknown destinations.
func (v filtering) addChains(l *listenerv3.Listener, chains []chain) {
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
