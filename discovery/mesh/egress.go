package mesh

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// Egress is a listener for the connections of applications: a set of services, and the routing
// rules for them.
type Egress struct {
	// Port is set if the listener is for one port alone; nil means every port of every service.
	Port *Port
	// Bind is an address, or a socket as unix:///path. If it is empty, the addresses of the
	// services, or the lack of redirection, decide.
	Bind string
	// Explicit listeners are connected to at their own address, even where connections to others
	// are redirected.
	Explicit bool

	// Services may have several entries for a host, if several ServiceEntries name it.
	Services        []*Service
	VirtualServices []*VirtualService

	namespace string // of the proxies
	router    bool   // for gateways: no application connects, and the services are those that routes may lead to
	wanted    imports
	byName    hostIndex[*VirtualService] // the first rule for each host
}

// egress makes the listeners that the Sidecar of a scope asks for. Without a Sidecar it makes one,
// for everything.
func (c *catalog) egress(s *Scope) []*Egress {
	wanted := s.SidecarSpec.GetEgress()
	if len(wanted) == 0 {
		return []*Egress{c.egressFor(&Egress{namespace: s.Namespace, router: s.router, wanted: everything(s.Namespace)})}
	}
	out := make([]*Egress, len(wanted))
	for i, listener := range wanted {
		e := egressListener(listener)
		e.namespace, e.wanted = s.Namespace, parseImports(listener.GetHosts(), s.Namespace)
		out[i] = c.egressFor(e)
	}
	return out
}

func egressListener(spec *networking.IstioEgressListener) *Egress {
	e := &Egress{Bind: spec.GetBind(), Explicit: spec.GetCaptureMode() == networking.CaptureMode_NONE}
	if port := spec.GetPort(); port != nil {
		e.Port = &Port{Name: port.GetName(), Number: port.GetNumber(), Protocol: ParseProtocol(port.GetProtocol())}
	}
	if IsSocket(e.Bind) {
		e.Explicit = true // nothing redirects connections to a path
	}
	return e
}

func (c *catalog) egressFor(e *Egress) *Egress {
	e.VirtualServices = c.virtualServicesFor(e)
	services := c.servicesFor(e)
	if e.ownPort() {
		services = onPort(services, e.Port.Number)
	}
	e.Services = e.oneNamespaceAHost(services)
	e.byName = firstByHost(e.VirtualServices)
	return e
}

// shows reports whether applications see the service through this listener. They see no pools.
func (e *Egress) shows(s *Service) bool {
	return (e.router || s.Pool == nil) && s.visibility.includes(e.namespace) && e.wanted.service(s.Namespace, s.Hostname)
}

// obeys reports whether the listener's routes follow the rule.
func (e *Egress) obeys(vs *VirtualService) bool {
	wanted := e.wanted.virtualService
	if vs.routes != nil {
		wanted = e.wanted.route
	}
	return vs.visibility.includes(e.namespace) && wanted(vs.Resource.Namespace, vs.Spec.GetHosts())
}

// ownPort reports whether the listener is only for services that have its port. An HTTP proxy, or a
// socket, is for all ports.
func (e *Egress) ownPort() bool {
	return e.Port != nil && e.Port.Number != 0 && e.Port.Protocol != ProtocolHTTPProxy
}

// AnyPort reports whether requests name the port that they want, as those to an HTTP proxy or a
// socket do.
func (e *Egress) AnyPort() bool { return e.Port != nil && !e.ownPort() }

// onPort keeps the services that have a port, with that port alone.
func onPort(services []*Service, number uint32) []*Service {
	var out []*Service
	for _, service := range services {
		if service.Port(number) != nil {
			out = append(out, service.only([]uint32{number}))
		}
	}
	return out
}

// destinationsOf lists the services that the rules of a listener send traffic to. They need
// clusters, whether or not the listener's hosts name them. A service is limited to the ports that
// rules send to, unless a destination leaves the port open. A gateway has only the services that it
// is shown.
func (c *catalog) destinationsOf(e *Egress) []*Service {
	if e.router {
		return nil
	}
	var out []*Service
	for _, vs := range e.VirtualServices {
		for _, d := range vs.destinationsFor(e.namespace) {
			service := c.destination(e.namespace, d.host)
			if service == nil {
				continue
			}
			ports := d.ports
			if e.ownPort() {
				ports = []uint32{e.Port.Number}
			}
			if len(ports) > 0 && !slices.ContainsFunc(ports, func(number uint32) bool { return service.Port(number) != nil }) {
				continue
			}
			out = append(out, service.only(ports))
		}
	}
	return out
}

// destinationHost is a host that a rule sends traffic to, and on which ports. Without ports it is
// on any.
type destinationHost struct {
	host  string
	ports []uint32
}

// destinationPorts lists the hosts in the order of the rule.
func destinationPorts(spec *networking.VirtualService) []destinationHost {
	var out []destinationHost
	at := map[string]int{}
	anyPort := map[string]bool{}
	for _, d := range Destinations(spec) {
		i, known := at[d.GetHost()]
		if !known {
			i = len(out)
			at[d.GetHost()] = i
			out = append(out, destinationHost{host: d.GetHost()})
		}
		if d.GetPort() == nil {
			anyPort[d.GetHost()] = true
		} else if !slices.Contains(out[i].ports, d.GetPort().GetNumber()) {
			out[i].ports = append(out[i].ports, d.GetPort().GetNumber())
		}
	}
	for i := range out {
		if anyPort[out[i].host] {
			out[i].ports = nil
		}
	}
	return out
}

// withoutForeignRoutes leaves out HTTP routes that match only clients of other namespaces.
func withoutForeignRoutes(spec *networking.VirtualService, namespace string) *networking.VirtualService {
	out := &networking.VirtualService{Tcp: spec.GetTcp(), Tls: spec.GetTls()}
	for _, route := range spec.GetHttp() {
		if !foreign(route.GetMatch(), namespace) {
			out.Http = append(out.Http, route)
		}
	}
	return out
}

func foreign(matches []*networking.HTTPMatchRequest, namespace string) bool {
	named := false
	for _, m := range matches {
		if m.GetSourceNamespace() == namespace {
			return false
		}
		named = named || m.GetSourceNamespace() != ""
	}
	return named
}

// oneNamespaceAHost keeps, for each host, the services of one namespace: the client's own, else
// that of the first service. For a gateway its own namespace has no precedence.
func (e *Egress) oneNamespaceAHost(services []*Service) []*Service {
	chosen := map[string]string{}
	for _, s := range services {
		if _, known := chosen[s.Hostname]; !known || s.Namespace == e.namespace && !e.router {
			chosen[s.Hostname] = s.Namespace
		}
	}
	left := func(s *Service) bool { return chosen[s.Hostname] != s.Namespace }
	if !slices.ContainsFunc(services, left) {
		return services
	}
	return slices.DeleteFunc(slices.Clone(services), left)
}

// WildcardOwner returns the VirtualService whose wildcard host is the most specific for a service
// that no VirtualService names exactly.
func (e *Egress) WildcardOwner(host string) *VirtualService {
	owner, _ := e.byName.find("", host)
	return owner
}

func firstByHost(rules []*VirtualService) hostIndex[*VirtualService] {
	edit := (&hostIndex[*VirtualService]{}).edit()
	edit.values.expect(len(rules))
	for _, vs := range rules {
		for _, host := range vs.Spec.GetHosts() {
			at := placeOf("", host)
			if _, known := edit.values.find(at); !known {
				edit.put(at, vs, false)
			}
		}
	}
	return edit.done()
}
