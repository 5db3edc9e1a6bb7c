package gatewayapi

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// Gateway is a Gateway of the Gateway API with the listeners that are served, those of its
// ListenerSets among them.
type Gateway struct {
	Resource  *kinds.Resource
	Listeners []*Listener
	Problems  []Problem
	// Services are the hosts of the services in its namespace whose workloads serve it. Without
	// any, those do whose label NameLabel is its name.
	Services []string
}

// Listener is a listener of a Gateway.
type Listener struct {
	// Resource is the listener as a Gateway of networking.istio.io with one server.
	Resource *kinds.Resource
	// Of is the Gateway, or the ListenerSet, that it stands in, and Path where.
	Of   *kinds.Resource
	Path string

	section, hostname string
	port              uint32
	protocol          string
	passes            bool // TLS does not end here
	kinds             []string
	from              namespaces
}

// Name is how VirtualServices would name it: namespace/name.
func (l *Listener) Name() string { return l.Resource.Namespace + "/" + l.Resource.Name }

// ReadGateway reads a Gateway with its ListenerSets, the oldest first. It is nil if its class is
// not served here.
func ReadGateway(r *kinds.Resource, sets []*kinds.Resource, classes Classes) *Gateway {
	spec, err := specOf[gatewaySpec](r)
	if err != nil {
		return &Gateway{Resource: r, Problems: unreadable(r, err)}
	}
	served, known := classes[spec.GatewayClassName]
	g := &Gateway{Resource: r}
	switch {
	case !known:
		g.report(r, "spec.gatewayClassName", fmt.Sprintf("there is no GatewayClass %q: nobody serves the Gateway. Name the class %s, "+
			"or create one whose controllerName is %s", spec.GatewayClassName, Class, Controller))
		return g
	case !served:
		return nil
	}
	g.readAddresses(spec.Addresses)
	for i, l := range spec.Listeners {
		g.listen(r, i, l, spec)
	}
	allowed := readNamespaces(spec.AllowedListeners.Namespaces, r.Namespace, "None")
	for _, set := range sets {
		g.readSet(set, allowed, spec)
	}
	return g
}

func (g *Gateway) report(of *kinds.Resource, path, reason string) {
	g.Problems = append(g.Problems, Problem{of.Key(), path, reason})
}

// readAddresses reads which services serve the Gateway. What is no name of one is not acted on,
// which who writes it is told.
func (g *Gateway) readAddresses(addresses []addressSpec) {
	for _, a := range addresses {
		if or(a.Type, "IPAddress") == "Hostname" {
			g.Services = append(g.Services, serviceHost(a.Value, g.Resource.Namespace))
		}
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
		g.report(set, "spec.parentRef", fmt.Sprintf("%s takes no listeners from this namespace: nobody serves them. Allow them in its allowedListeners", g.Resource.Key()))
		return
	}
	for i, l := range spec.Listeners {
		g.listen(set, i, l, of)
	}
}

// listen adds a listener, unless it cannot be served.
func (g *Gateway) listen(of *kinds.Resource, index int, spec listenerSpec, gateway gatewaySpec) {
	l := &Listener{
		Of: of, Path: fmt.Sprintf("spec.listeners[%d]", index), section: spec.Name, hostname: spec.Hostname, port: spec.Port, protocol: spec.Protocol,
		from: readNamespaces(spec.AllowedRoutes.Namespaces, of.Namespace, "Same"),
	}
	if l.port == 0 {
		l.port = map[string]uint32{"HTTP": 80, "HTTPS": 443}[spec.Protocol]
	}
	if rival := g.rival(l); rival != nil {
		g.report(of, l.Path, fmt.Sprintf("the listener %q of %s has the same port, protocol and hostname: this one is left out", rival.section, rival.Of.Key()))
		return
	}
	tls, wrong := g.tls(l, spec.TLS, gateway)
	if wrong == "" && !slices.Contains([]string{"HTTP", "HTTPS", "TLS", "TCP"}, spec.Protocol) {
		wrong = fmt.Sprintf("the protocol %q is not served: the listener is left out. Write HTTP, HTTPS, TLS or TCP", spec.Protocol)
	}
	if wrong != "" {
		g.report(of, l.Path, wrong)
		return
	}
	l.passes = tls.GetMode() == networking.ServerTLSSettings_PASSTHROUGH
	l.kinds = l.readKinds(spec)
	l.Resource = g.server(l, tls)
	g.Listeners = append(g.Listeners, l)
}

// rival is a listener before this one that takes the same connections; nil if there is none.
func (g *Gateway) rival(l *Listener) *Listener {
	for _, other := range g.Listeners {
		if other.port == l.port && other.protocol == l.protocol && other.hostname == l.hostname {
			return other
		}
	}
	return nil
}

// server is the listener as a Gateway of networking.istio.io.
func (g *Gateway) server(l *Listener, tls *networking.ServerTLSSettings) *kinds.Resource {
	host := l.hostname
	if host == "" {
		host = "*"
	}
	spec := &networking.Gateway{Servers: []*networking.Server{{
		Port:  &networking.Port{Name: "default", Number: l.port, Protocol: l.protocol},
		Hosts: l.from.hosts(host), Tls: tls,
	}}}
	if len(g.Services) == 0 {
		spec.Selector = map[string]string{NameLabel: g.Resource.Name}
	}
	return &kinds.Resource{
		Kind: kindServer, Namespace: l.Of.Namespace, Name: l.Of.Name + "~" + generated + "~" + l.section, CreateTime: l.Of.CreateTime,
		Spec: kinds.SpecOf(spec),
	}
}

// readKinds lists the kinds of routes that the listener takes: of those that its protocol can have,
// those that it allows.
func (l *Listener) readKinds(spec listenerSpec) (out []string) {
	can := map[string][]string{
		"HTTP": {"HTTPRoute", "GRPCRoute"}, "HTTPS": {"HTTPRoute", "GRPCRoute"}, "TLS": {"TLSRoute"}, "TCP": {"TCPRoute"},
	}[l.protocol]
	if l.protocol == "TLS" && !l.passes {
		can = []string{"TLSRoute", "TCPRoute"}
	}
	if len(spec.AllowedRoutes.Kinds) == 0 {
		return can
	}
	for _, allowed := range spec.AllowedRoutes.Kinds {
		if or(allowed.Group, group) == group && slices.Contains(can, allowed.Kind) {
			out = append(out, allowed.Kind)
		}
	}
	return out
}
