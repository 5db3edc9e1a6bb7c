package gatewayapi

import (
	"fmt"
	"net/netip"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// Gateway is a Gateway of the Gateway API with its listeners, those of its ListenerSets among them.
type Gateway struct {
	Resource  *kinds.Resource
	Listeners []*Listener
	Problems  []Problem
	// Sets are the ListenerSets that it takes, and Refused those that it does not.
	Sets, Refused []*kinds.Resource
	// Services are the hosts of the services in its namespace whose workloads serve it. Without
	// any, those do whose label NameLabel is its name.
	Services []string

	// Addresses are the IP addresses that it asks for. Machines that have some of them serve it there
	// alone.
	Addresses []string

	// Shows is the credential of what gateways show to backends whose TLS a policy asks for: "" for
	// nothing, and NoAuthority for what they cannot have.
	Shows string

	// Abroad are the other namespaces whose secrets it names, granted or not.
	Abroad []string

	stated  bool  // its status is said here, and not by Istio's controller
	refusal fault // why nothing of it is served
	spec    gatewaySpec
	grants  *Grants
	shown   showing
}

// Listener is a listener of a Gateway.
type Listener struct {
	// Resource is the listener as a Gateway of networking.istio.io with one server; nil if it is not
	// served.
	Resource *kinds.Resource
	// Of is the Gateway, or the ListenerSet, that it stands in, and Path where.
	Of   *kinds.Resource
	Path string

	section, hostname string
	port              uint32
	protocol          string
	passes            bool // TLS does not end here
	ends              bool // TLS ends here
	kinds             []string
	from              namespaces
	stated            bool // as the Gateway's

	wrong      faults // why it is not served, by itself
	conflict   fault  // with another listener, which is served
	unresolved faults // what it names in vain

	certificates []Secret          // by which gateways prove who it is
	uncertified  bool              // it names none that it may have
	authorities  []clientAuthority // by which it checks clients
	trusts       string            // what names all of them, unless it is a single secret
}

// Secret names a secret of a namespace.
type Secret struct{ Namespace, Name string }

// Served reports whether gateways serve the listener.
func (l *Listener) Served() bool { return l.Resource != nil }

// Name is how VirtualServices would name it: namespace/name.
func (l *Listener) Name() string { return l.Resource.Namespace + "/" + l.Resource.Name }

// ReadGateway reads a Gateway with its ListenerSets, the oldest first. It is nil if its class is
// not served here.
func ReadGateway(r *kinds.Resource, sets []*kinds.Resource, classes Classes, grants *Grants) *Gateway {
	spec, err := specOf[gatewaySpec](r)
	if err != nil {
		return &Gateway{Resource: r, Problems: unreadable(r, err)}
	}
	controller, known := classes[spec.GatewayClassName]
	g := &Gateway{Resource: r, spec: spec, stated: controller == Controller, grants: grants}
	switch {
	case !known:
		g.report(r, "spec.gatewayClassName", fmt.Sprintf("there is no GatewayClass %q: nobody serves the Gateway. Name the class %s, "+
			"or create one whose controllerName is %s", spec.GatewayClassName, Class, Controller))
		return g
	case !classes.serve(spec.GatewayClassName):
		return nil
	}
	g.readAddresses(spec.Addresses)
	g.readCertificate()
	for i, l := range spec.Listeners {
		g.listen(r, i, l, spec)
	}
	allowed := readNamespaces(spec.AllowedListeners.Namespaces, r.Namespace, "None")
	for _, set := range sets {
		g.readSet(set, allowed, spec)
	}
	if g.refusal != (fault{}) {
		for _, l := range g.Listeners {
			l.Resource = nil
		}
	}
	return g
}

func (g *Gateway) report(of *kinds.Resource, path, reason string) {
	g.Problems = append(g.Problems, Problem{of.Key(), path, reason})
}

// readAddresses reads where the Gateway is to be reached: at which addresses, and by which services. An
// address without a value is any. Types that there are not have a Gateway refused, but for Istio's
// controller, which leaves them out.
func (g *Gateway) readAddresses(addresses []addressSpec) {
	for i, a := range addresses {
		switch of := or(a.Type, typeIP); {
		case of != typeIP && of != typeHost:
			why := fmt.Sprintf("there are no addresses of the type %q: write %s or %s", of, typeIP, typeHost)
			g.refuse("UnsupportedAddress", fmt.Sprintf("spec.addresses[%d].type", i), why)
		case a.Value == "":
		case of == typeHost:
			g.Services = append(g.Services, serviceHost(a.Value, g.Resource.Namespace))
		default:
			if address, err := netip.ParseAddr(a.Value); err == nil {
				g.Addresses = withOne(g.Addresses, address.String())
			}
		}
	}
}

// The types of addresses that a Gateway may have.
const (
	typeIP   = "IPAddress"
	typeHost = "Hostname"
)

// refuse notes why nothing of the Gateway is served, if that is for this controller to say.
func (g *Gateway) refuse(reason, path, message string) {
	if g.stated {
		g.refusal = fault{reason, message}
		g.report(g.Resource, path, message+". Nobody serves the Gateway")
	}
}

// SetParent is the Gateway that a ListenerSet adds to; the zero Key if it is none.
func SetParent(set *kinds.Resource) kinds.Key {
	spec, err := specOf[listenerSetSpec](set)
	parent := spec.ParentRef.resolved(group, KindGateway.Name, set.Namespace)
	if err != nil || !parent.is(group, KindGateway.Name) {
		return kinds.Key{}
	}
	return kinds.Key{Kind: KindGateway, Namespace: parent.namespace, Name: parent.name}
}

func (g *Gateway) readSet(set *kinds.Resource, allowed namespaces, of gatewaySpec) {
	spec, err := specOf[listenerSetSpec](set)
	switch {
	case err != nil:
		g.Problems = append(g.Problems, unreadable(set, err)...)
		return
	case !allowed.include(set):
		g.Refused = append(g.Refused, set)
		g.report(set, "spec.parentRef", fmt.Sprintf("%s takes no listeners from this namespace: nobody serves them. Allow them in its allowedListeners", g.Resource.Key()))
		return
	}
	g.Sets = append(g.Sets, set)
	for i, l := range spec.Listeners {
		g.listen(set, i, l, of)
	}
}

// listen adds a listener. One that cannot be served has no Resource.
func (g *Gateway) listen(of *kinds.Resource, index int, spec listenerSpec, gateway gatewaySpec) {
	l := &Listener{
		Of: of, Path: fmt.Sprintf("spec.listeners[%d]", index), section: spec.Name, hostname: spec.Hostname, port: spec.Port, protocol: spec.Protocol,
		from: readNamespaces(spec.AllowedRoutes.Namespaces, of.Namespace, "Same"), stated: g.stated,
	}
	g.Listeners = append(g.Listeners, l)
	if l.port == 0 {
		l.port = map[string]uint32{"HTTP": 80, "HTTPS": 443}[spec.Protocol]
	}
	l.passes = spec.TLS != nil && or(spec.TLS.Mode, "Terminate") == "Passthrough"
	l.ends = spec.TLS != nil && !l.passes
	if !slices.Contains([]string{"HTTP", "HTTPS", "TLS", "TCP", protocolUDP}, spec.Protocol) {
		l.refuse("UnsupportedProtocol", fmt.Sprintf("the protocol %q is not served: the listener is left out. Write HTTP, HTTPS, TLS, TCP or UDP", spec.Protocol))
		g.report(of, l.Path, l.wrong[0].message)
		return
	}
	l.readKinds(spec)
	if g.conflicts(l) {
		g.report(of, l.Path, l.conflict.message)
		return
	}
	tls := g.tls(l, spec.TLS, gateway)
	switch {
	case len(l.wrong) > 0:
		g.report(of, l.Path, l.wrong[0].message)
	case l.uncertified:
		g.report(of, l.Path, "has no certificate that it may use: the listener is left out")
	default:
		l.Resource = g.server(l, tls)
	}
}

// protocolUDP is that of listeners for datagrams.
const protocolUDP = "UDP"

// refuse notes why the listener cannot be served.
func (l *Listener) refuse(reason, message string) { l.wrong = append(l.wrong, fault{reason, message}) }

// conflicts reports whether a listener before this one, which is served, takes the same connections,
// or those of the port in another protocol. It notes which. UDP has ports of its own.
func (g *Gateway) conflicts(l *Listener) bool {
	for _, other := range g.Listeners {
		switch {
		case other == l || !other.Served() || other.port != l.port || (other.protocol == protocolUDP) != (l.protocol == protocolUDP):
		case other.transport() != l.transport():
			l.conflict = fault{"ProtocolConflict", fmt.Sprintf("the listener %q of %s has the same port with the protocol %s: this one is left out", other.section, other.Of.Key(), other.protocol)}
		case other.hostname == l.hostname:
			l.conflict = fault{"HostnameConflict", fmt.Sprintf("the listener %q of %s has the same port, protocol and hostname: this one is left out", other.section, other.Of.Key())}
		}
	}
	return l.conflict != fault{}
}

// transport is what is spoken on a port first: listeners of one port have to agree on it.
func (l *Listener) transport() string {
	if l.protocol == "HTTPS" {
		return "TLS"
	}
	return l.protocol
}

// server is the listener as a Gateway of networking.istio.io.
func (g *Gateway) server(l *Listener, tls *networking.ServerTLSSettings) *kinds.Resource {
	spec := &networking.Gateway{Servers: []*networking.Server{{
		Port:  &networking.Port{Name: "default", Number: l.port, Protocol: l.protocol},
		Hosts: l.from.hosts(l.host()), Tls: tls,
	}}}
	if len(g.Services) == 0 {
		spec.Selector = map[string]string{NameLabel: g.Resource.Name}
	}
	return &kinds.Resource{
		Kind: kindServer, Namespace: l.Of.Namespace, Name: l.Of.Name + "~" + generated + "~" + l.section, CreateTime: l.Of.CreateTime,
		Spec: kinds.SpecOf(spec),
	}
}

// readKinds notes the kinds of routes that the listener takes: of those that its protocol can have,
// those that it allows.
func (l *Listener) readKinds(spec listenerSpec) {
	can := map[string][]string{
		"HTTP": {"HTTPRoute", "GRPCRoute"}, "HTTPS": {"HTTPRoute", "GRPCRoute"}, "TLS": {"TLSRoute"}, "TCP": {"TCPRoute"}, protocolUDP: {"UDPRoute"},
	}[l.protocol]
	if l.protocol == "TLS" && !l.passes {
		can = []string{"TLSRoute", "TCPRoute"}
	}
	if len(spec.AllowedRoutes.Kinds) == 0 {
		l.kinds = can
		return
	}
	for _, allowed := range spec.AllowedRoutes.Kinds {
		if or(allowed.Group, group) == group && slices.Contains(can, allowed.Kind) {
			l.kinds = append(l.kinds, allowed.Kind)
		} else {
			l.lost("InvalidRouteKinds", fmt.Sprintf("a listener of %s takes no %s of %q", l.protocol, allowed.Kind, or(allowed.Group, group)))
		}
	}
}

// lost notes what the listener names in vain.
func (l *Listener) lost(reason, message string) {
	l.unresolved = append(l.unresolved, fault{reason, message})
}
