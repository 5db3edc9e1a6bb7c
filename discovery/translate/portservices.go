package translate

import (
	"slices"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// portServices are the services with one port.
type portServices struct {
	egress    *mesh.Egress
	port      uint32
	byHost    map[string]*mesh.Service
	hosts     []string // in the order of the services
	wildcards []string // those of hosts that are wildcards
}

// servicesOnPort finds the services with a port; of several for a host the last counts.
func servicesOnPort(egress *mesh.Egress, port uint32) portServices {
	out := portServices{egress: egress, port: port, byHost: map[string]*mesh.Service{}}
	for _, s := range egress.Services {
		if s.Port(port) == nil {
			continue
		}
		if out.byHost[s.Hostname] == nil {
			out.hosts = append(out.hosts, s.Hostname)
			if mesh.IsWildcard(s.Hostname) {
				out.wildcards = append(out.wildcards, s.Hostname)
			}
		}
		out.byHost[s.Hostname] = s
	}
	return out
}

// includes reports whether a host of a rule has a name in common with one of the services.
func (p portServices) includes(host string) bool {
	if p.byHost[host] != nil {
		return true
	}
	candidates := p.wildcards
	if mesh.IsWildcard(host) {
		candidates = p.hosts
	}
	return slices.ContainsFunc(candidates, func(service string) bool { return mesh.HostsOverlap(host, service) })
}

// names reports whether a host of a rule stands for services, so that it needs no virtual host of its own.
func (p portServices) names(host string) bool {
	if !mesh.IsWildcard(host) {
		return p.byHost[host] != nil
	}
	return slices.ContainsFunc(p.hosts, func(service string) bool { return mesh.HostsOverlap(host, service) })
}

// routedBy lists the services that a host of a rule stands for: under a wildcard, those for which no other rule's host
// is more specific.
func (p portServices) routedBy(vs *mesh.VirtualService, host string) []*mesh.Service {
	if !mesh.IsWildcard(host) {
		if s := p.byHost[host]; s != nil {
			return []*mesh.Service{s}
		}
		return nil
	}
	var out []*mesh.Service
	for _, service := range p.hosts {
		if mesh.HostsOverlap(service, host) && p.egress.WildcardOwner(service) == vs {
			out = append(out, p.byHost[service])
		}
	}
	return out
}
