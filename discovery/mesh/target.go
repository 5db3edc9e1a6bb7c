package mesh

import (
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/kinds"
)

// Target is one port of one service that a workload serves.
type Target struct {
	Service *Service
	Port    *Port
	// Number is the port that the workload listens on.
	Number uint32
	// Locality is that of the endpoint.
	Locality string

	endpoint *Endpoint
}

// Same reports whether two targets are the same for a proxy, whatever else serves their services.
func (t Target) Same(other Target) bool {
	return t.Service.Shape == other.Service.Shape && t.Port == other.Port && t.Number == other.Number
}

// TakesDatagrams reports whether the port is one of UDP: what sidecars do is not for it.
func (t Target) TakesDatagrams() bool { return t.Port.takesDatagrams() }

// replaceTargets records which addresses serve which services, for the proxies at these addresses.
func (x *serviceIndex) replaceTargets(gone, come []*Service) {
	leaving, coming := targetsOf(gone), targetsOf(come)
	byAddress, problems := x.byAddress.edit(), x.rivals.edit()
	byAddress.expect(len(coming) - len(leaving))
	for address := range leaving {
		if coming[address] == nil {
			coming[address] = nil // to be visited
		}
	}
	for address, more := range coming {
		list := more
		if before := x.byAddress.get(address); len(before) > 0 {
			list = slices.DeleteFunc(slices.Clone(before), func(t Target) bool {
				return slices.ContainsFunc(leaving[address], func(l Target) bool { return l.Service == t.Service })
			})
			list = append(list, more...)
		}
		if len(list) > 1 {
			slices.SortStableFunc(list, func(a, b Target) int { return compareServices(a.Service, b.Service) })
		}
		byAddress.put(address, list, len(list) == 0)
		rivals := rivalsAt(list)
		problems.put(address, rivals, len(rivals) == 0)
	}
	x.byAddress, x.rivals = byAddress.done(), problems.done()
}

// targetsOf returns the targets of services, by address.
func targetsOf(services []*Service) map[string][]Target {
	out := map[string][]Target{}
	for _, s := range services {
		for _, e := range s.Endpoints {
			if e.entry != s.Entry {
				continue // another entry for the host, with its own ports, is at this address
			}
			if e.Unix || !IsAddress(e.Address) {
				continue
			}
			port := s.Port(e.PortNumber)
			if e.Datagrams {
				port = s.Datagram(e.PortNumber)
			}
			out[e.Address] = append(out[e.Address], Target{Service: s, Port: port, Number: e.Port, Locality: e.Locality, endpoint: e})
		}
	}
	return out
}

// Targets lists what the workload beside a proxy serves: the endpoints at the proxy's addresses, of
// services in its own namespace only. So no namespace can put a service in front of another's
// workloads. At the same address of another network is somebody else.
func (m *Mesh) Targets(p *Proxy) []Target {
	var out []Target
	network := m.NetworkOfProxy(p)
	for _, ip := range p.Addresses {
		for _, t := range m.services.byAddress.get(ip) {
			if t.Service.Namespace == p.Namespace && (p.Type == Sidecar || t.isRouter(p)) && !m.isBeyond(network, t.endpoint) {
				out = append(out, t)
			}
		}
	}
	return out
}

// isBeyond reports whether an endpoint is known to be in another network.
func (m *Mesh) isBeyond(network string, e *Endpoint) bool {
	if network == "" {
		return false
	}
	of := m.NetworkOf(e)
	return of != "" && of != network
}

// isRouter reports whether the endpoint is the router itself. A machine has one address for its
// router and its applications; only an endpoint whose labels are all the router's too is the
// router.
func (t Target) isRouter(p *Proxy) bool {
	own := givenLabels(t.endpoint.Labels)
	return len(own) > 0 && kinds.LabelsWithin(own, p.Labels)
}

// Known returns a sidecar with the labels that the mesh knows for its workload: if a service has an
// endpoint with labels at its address, those count, and not what it says of itself. A router's own
// labels count.
func (m *Mesh) Known(p *Proxy) *Proxy {
	if p.Type != Sidecar {
		return p
	}
	for _, t := range m.Targets(p) {
		if len(givenLabels(t.endpoint.Labels)) == 0 {
			continue
		}
		known := *p
		known.Labels = maps.Clone(p.StaticLabels)
		if known.Labels == nil {
			known.Labels = map[string]string{}
		}
		maps.Copy(known.Labels, t.endpoint.Labels)
		return &known
	}
	return p
}
