package mesh

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// Egress is where applications' connections come in: a set of services and the routing rules for them.
type Egress struct {
	// Port is that of a listener for one port alone; nil: for every port of every service.
	Port *Port
	// Bind is an address or a socket, as unix:///path; empty: what the services' addresses, or the lack of redirection, suggest.
	Bind string
	// Explicit listeners are connected to at their own address, also where connections to others are redirected.
	Explicit bool

	// Services may have several for a host, where several ServiceEntries name it.
	Services        []*Service
	VirtualServices []*VirtualService

	wildcardOwner map[string]*VirtualService
}

// egress makes the listeners that the Sidecar of a scope asks for; without one, a single listener for everything.
func (m *Mesh) egress(s, before *Scope) []*Egress {
	wanted := s.SidecarSpec.GetEgress()
	if len(wanted) == 0 {
		return []*Egress{m.egressFor(&Egress{}, everything(s.Namespace), s, before)}
	}
	out := make([]*Egress, len(wanted))
	for i, listener := range wanted {
		out[i] = m.egressFor(egressListener(listener), parseImports(listener.GetHosts(), s.Namespace), s, before)
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

func (m *Mesh) egressFor(e *Egress, wanted imports, s, before *Scope) *Egress {
	e.VirtualServices = m.catalog.virtualServicesFor(s.Namespace, wanted)
	services := m.catalog.servicesFor(s.Namespace, wanted)
	if e.ownPort() {
		services = s.onPort(services, e.Port.Number, before)
	}
	e.Services = oneNamespaceAHost(services, s.Namespace)
	e.wildcardOwner = wildcardOwners(e)
	return e
}

// ownPort reports whether the listener is for services with its port alone. An HTTP proxy, or a socket, is for all ports.
func (e *Egress) ownPort() bool {
	return e.Port != nil && e.Port.Number != 0 && e.Port.Protocol != ProtocolHTTPProxy
}

// AnyPort reports whether requests name the port that they want: those to an HTTP proxy, or to a socket.
func (e *Egress) AnyPort() bool { return e.Port != nil && !e.ownPort() }

// onPort keeps the services with a port, and of them that port alone.
func (s *Scope) onPort(services []*Service, number uint32, before *Scope) []*Service {
	var out []*Service
	for _, service := range services {
		if service.Port(number) != nil {
			out = append(out, s.only(service, []uint32{number}, before))
		}
	}
	return out
}

// destinationsOf lists the services that the rules of a listener send traffic to: they need clusters, whether or not the listener's
// hosts name them. A service is limited to the ports that are sent to, unless a destination leaves its port open.
func (m *Mesh) destinationsOf(e *Egress, s, before *Scope) []*Service {
	var out []*Service
	for _, vs := range e.VirtualServices {
		for _, d := range destinationPorts(vs.Spec, s.Namespace) {
			service := m.catalog.destination(s.Namespace, d.host)
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
			out = append(out, s.only(service, ports, before))
		}
	}
	return out
}

// destinationHost is a host that a rule sends traffic to, and on which ports; none: on any.
type destinationHost struct {
	host  string
	ports []uint32
}

// destinationPorts lists the hosts in the order of the rule. HTTP routes for clients in other namespaces do not count.
func destinationPorts(spec *networking.VirtualService, namespace string) []destinationHost {
	var out []destinationHost
	at := map[string]int{}
	anyPort := map[string]bool{}
	for _, d := range destinations(withoutForeignRoutes(spec, namespace)) {
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

// withoutForeignRoutes leaves out HTTP routes whose every match that names a client's namespace names another.
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

// oneNamespaceAHost keeps, for each host, the services of a single namespace: the client's own, else that of the first.
func oneNamespaceAHost(services []*Service, own string) []*Service {
	chosen := map[string]string{}
	for _, s := range services {
		if _, known := chosen[s.Hostname]; !known || s.Namespace == own {
			chosen[s.Hostname] = s.Namespace
		}
	}
	out := services[:0:0]
	for _, s := range services {
		if chosen[s.Hostname] == s.Namespace {
			out = append(out, s)
		}
	}
	return out
}

// WildcardOwner returns the VirtualService whose wildcard host is the most specific for a service that no
// VirtualService names exactly.
func (e *Egress) WildcardOwner(host string) *VirtualService { return e.wildcardOwner[host] }

func wildcardOwners(e *Egress) map[string]*VirtualService {
	byName := newByHost[*VirtualService]()
	for _, vs := range e.VirtualServices {
		for _, host := range vs.Spec.GetHosts() {
			if _, known := byName.at(host); !known {
				byName.set(host, vs)
			}
		}
	}
	owners := make(map[string]*VirtualService, len(e.Services))
	for _, s := range e.Services {
		if vs, ok := byName.find(s.Hostname); ok {
			owners[s.Hostname] = vs
		}
	}
	return owners
}
