package mesh

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// Frontend is what a router exposes: the servers of all Gateways that select it, by the socket that
// each listens on. A server that conflicts with an older one is left out, and is a problem of its
// Gateway.
type Frontend struct {
	*opened

	needing map[string][]*VirtualService // by Gateway, the rules that need something of listeners
	from    exposed                      // its inputs, to tell whether the next mesh can reuse it
}

// opened is what a frontend listens on. It does not depend on rules for requests, so frontends share it
// while only those change.
type opened struct {
	Sockets  []*Socket
	Problems []Problem

	// Servers are those that are not left out, whether a rule routes to them or not.
	Servers []*Server
	// Routes has the servers behind each route configuration, the oldest first.
	Routes map[string][]*Server

	sockets map[socketKey]*Socket
}

// exposed are the inputs of a frontend.
type exposed struct {
	proxy    *Proxy
	targets  []Target
	gateways []*gateway
	rules    map[string][]*VirtualService // by Gateway, those that the router obeys
}

// same reports whether a router with the same key exposes the same. The proxy itself is part of the
// key.
func (e *exposed) same(other *exposed) bool {
	return e.sameServers(other) && maps.EqualFunc(e.rules, other.rules, slices.Equal[[]*VirtualService])
}

// sameServers is the same but for rules.
func (e *exposed) sameServers(other *exposed) bool {
	return slices.Equal(e.gateways, other.gateways) && slices.EqualFunc(e.targets, other.targets, Target.Same)
}

type socketKey struct {
	bind string
	port uint32
	udp  bool
}

// Socket is an address with a port. With port 0 it is the path of a Unix socket.
type Socket struct {
	Bind string // "" is all addresses
	Port uint32
	// Datagrams tells that it is one of UDP, which has ports of its own.
	Datagrams bool
	// Entrances are sorted by the age of their Gateways, the oldest first.
	Entrances []*Entrance

	plain  *Server           // the first server without TLS
	hosts  map[string]string // of servers with TLS settings: which server has a host
	taken  map[string]string // which server has the connections for a server name; "" is those without a known one
	routes map[string]bool   // route configurations of servers that end TLS
}

// Frontend returns what a router exposes. Routers that cannot be told apart share it. It is that of
// the mesh before if none of its inputs changed.
func (m *Mesh) Frontend(p *Proxy) *Frontend {
	targets := m.Targets(p)
	key := fmt.Sprint(p.Namespace, "\n", m.gateways.names.encode(p.Labels), "\n", encodeTargets(targets), "\n", p.HasIPv4(), p.HasIPv6(), p.Unprivileged, p.ReservedPorts, p.Identity.FromAgent, m.askedFor(p))
	return m.frontends.get(key, func() *Frontend {
		f, from := m.memory.frontends.get(key), m.exposedBy(p, targets)
		if f == nil || !f.from.same(&from) {
			f = f.followedBy(from)
		}
		m.memory.frontends.keep(key, f, m.build)
		return f
	})
}

func (m *Mesh) exposedBy(p *Proxy, targets []Target) exposed {
	out := exposed{proxy: p, targets: targets, rules: map[string][]*VirtualService{}}
	everybodys := !m.ownGateways && !m.Trust().OwnGateways
	for _, g := range m.gateways.all {
		if g.selects(p, targets) && (everybodys || g.namespace == p.Namespace) {
			out.gateways = append(out.gateways, g)
			out.rules[g.name] = m.VirtualServicesOf(g.name, p.Namespace)
		}
	}
	return out
}

func buildFrontend(from exposed) *Frontend {
	f := &Frontend{&opened{Routes: map[string][]*Server{}, sockets: map[socketKey]*Socket{}}, map[string][]*VirtualService{}, from}
	for gateway, rules := range from.rules {
		f.needing[gateway] = those(rules, (*VirtualService).NeedsOfListeners)
	}
	for _, g := range from.gateways {
		for _, s := range g.servers {
			for _, port := range g.listensOn(s, from.targets) {
				for _, bind := range g.binds(from.proxy, s) {
					f.add(s, bind, port)
				}
			}
		}
	}
	f.Sockets = slices.DeleteFunc(f.Sockets, func(s *Socket) bool { return len(s.Entrances) == 0 })
	return f
}

// add puts a server on its socket, unless it may not listen there, or another server has its place.
func (f *Frontend) add(s *Server, bind string, port uint32) {
	if reason := f.prevents(s, port); reason != "" {
		f.reject(s, reason)
		return
	}
	route := s.routeName(bind, port)
	bind = f.bind(bind)
	if rival := f.rival(bind, port, s.takesDatagrams()); rival != nil {
		f.reject(s, fmt.Sprintf("a router that serves this Gateway listens on port %d of %s already, for %s: the server is left out there. "+
			"Write the same bind in both, or none", port, cmp.Or(rival.Bind, "all addresses"), rival.Entrances[0].Server))
		return
	}
	socket := f.socket(bind, port, s.takesDatagrams())
	if reason := socket.refuses(s, route); reason != "" {
		f.reject(s, reason)
		return
	}
	if !f.open(socket, s, route) {
		return
	}
	socket.admit(s, route)
	f.Servers = append(f.Servers, s)
	if route != "" {
		f.Routes[route] = append(f.Routes[route], s)
	}
}

// prevents says why the router cannot have the server, whatever else it exposes; "" if it can.
func (f *Frontend) prevents(s *Server, port uint32) string {
	switch {
	case f.from.proxy.Unprivileged && 0 < port && port < 1024:
		return fmt.Sprintf("a router that may not listen on ports below 1024 serves this Gateway: port %d is left out there", port)
	case slices.Contains(f.from.proxy.ReservedPorts, port) && !s.takesDatagrams():
		return fmt.Sprintf("a router that serves this Gateway tells of its health on port %d: the server is left out there", port)
	case s.takesDatagrams() && !s.listener:
		return "routers serve UDP for Gateways of the Gateway API alone: the server is left out. Write a listener there, and a UDPRoute"
	case s.EndsTLS() && s.Mode() == networking.ServerTLSSettings_ISTIO_MUTUAL && !f.from.proxy.Identity.FromAgent:
		return "a router that serves this Gateway has no certificate of the mesh, which ISTIO_MUTUAL is about: the server is left out there"
	default:
		return ""
	}
}

func (f *Frontend) reject(s *Server, reason string) {
	f.Problems = append(f.Problems, s.problem(reason))
}

// bind writes an address in one way, so that two spellings of it are not two sockets; "" is all
// addresses of the router.
func (f *Frontend) bind(text string) string {
	if address, err := netip.ParseAddr(text); err == nil {
		text = address.String()
	}
	if text == f.from.proxy.wildcard() {
		return ""
	}
	return text
}

// rival finds a socket that shares an address with this one, for which Envoy would refuse it; nil
// if there is none.
func (f *Frontend) rival(bind string, port uint32, datagrams bool) *Socket {
	if p := f.from.proxy; !p.HasIPv4() || !p.HasIPv6() || bind != "" && !standsForAll(bind) {
		return nil // "all addresses" means those of one family
	}
	for _, x := range f.Sockets {
		if x.Port == port && x.Datagrams == datagrams && x.Bind != bind && (x.Bind == "" || bind == "" && standsForAll(x.Bind)) && len(x.Entrances) > 0 {
			return x
		}
	}
	return nil
}

// standsForAll reports whether an address means all addresses of a family.
func standsForAll(bind string) bool {
	address, err := netip.ParseAddr(bind)
	return err == nil && address.Unmap().IsUnspecified()
}

func (f *Frontend) socket(bind string, port uint32, datagrams bool) *Socket {
	key := socketKey{bind, port, datagrams}
	if f.sockets[key] == nil {
		f.sockets[key] = &Socket{
			Bind: bind, Port: port, Datagrams: datagrams, hosts: map[string]string{}, taken: map[string]string{}, routes: map[string]bool{},
		}
		f.Sockets = append(f.Sockets, f.sockets[key])
	}
	return f.sockets[key]
}

// refuses says why a server cannot share the socket with those there; "" if it can. With TLS the
// server name tells servers apart, with HTTP the host of a request, and with plain TCP nothing.
func (x *Socket) refuses(s *Server, route string) string {
	if s.Spec.GetTls() != nil {
		for _, host := range s.Hosts {
			if owner, taken := x.hosts[host.String()]; taken {
				return fmt.Sprintf("host %s is served by %s already: the whole server is left out", host, owner)
			}
		}
	}
	switch {
	case x.plain == nil && (s.Plain() || !x.routes[route]):
		return ""
	case x.plain == nil:
		return fmt.Sprintf("another server of this Gateway has the port's name %q too: the server is left out", s.Spec.GetPort().GetName())
	case x.plain.Protocol.IsHTTP() && s.Protocol.IsHTTP():
		return ""
	default:
		return fmt.Sprintf("the port is taken by %s, which speaks %s: a server of %s beside it is left out",
			x.plain, x.plain.Protocol, s.Spec.GetPort().GetProtocol())
	}
}

// admit records what a server takes of the socket.
func (x *Socket) admit(s *Server, route string) {
	if s.Spec.GetTls() != nil {
		for _, host := range s.Hosts {
			x.hosts[host.String()] = s.String()
		}
	}
	if s.Plain() {
		if x.plain == nil {
			x.plain = s
		}
		return
	}
	if route != "" {
		x.routes[route] = true
	}
}

// take claims the connections for all of these server names. If another server has one of them, it
// claims none, and returns that server.
func (x *Socket) take(names []string, by string) (owner string, taken bool) {
	if len(names) == 0 {
		names = []string{""}
	}
	for _, name := range names {
		if owner, taken = x.taken[name]; taken {
			return owner, true
		}
	}
	for _, name := range names {
		x.taken[name] = by
	}
	return "", false
}

// AutoPassthrough reports whether a server lets sidecars of other networks through to services of
// this one.
func (f *Frontend) AutoPassthrough() bool {
	return slices.ContainsFunc(f.Sockets, func(x *Socket) bool {
		return slices.ContainsFunc(x.Entrances, func(e *Entrance) bool { return e.Server.AutoPassthrough() })
	})
}

// TakesDatagrams reports whether a server is for UDP.
func (f *Frontend) TakesDatagrams() bool {
	return slices.ContainsFunc(f.Sockets, func(x *Socket) bool { return x.Datagrams })
}

// Shown are the credentials of what is shown to backends by what comes in at some server, sorted.
func (f *Frontend) Shown() (out []string) {
	for _, s := range f.Servers {
		if s.Shows != "" && !slices.Contains(out, s.Shows) {
			out = append(out, s.Shows)
		}
	}
	slices.Sort(out)
	return out
}
