package memory

import (
	"slices"

	"github.com/pgmesh/pgmesh/discovery/hostname"
	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// portServices are the services with one port.
type portServices struct {
	egress    *mesh.Egress
	port      uint32
	byHost    map[string]*mesh.Service
	hosts     []string // in the order of the services
	wildcards []string // those of hosts that are wildcards
	several   bool     // there are several for a host
}

// servicesOnPort finds the services with a port. Of several for a host the last counts.
func servicesOnPort(egress *mesh.Egress, port uint32) portServices {
	out := portServices{egress: egress, port: port, byHost: make(map[string]*mesh.Service, len(egress.Services))}
	for _, s := range egress.Services {
		if s.Port(port) == nil {
			continue
		}
		if out.byHost[s.Hostname] == nil {
			out.hosts = append(out.hosts, s.Hostname)
			if hostname.IsWildcard(s.Hostname) {
				out.wildcards = append(out.wildcards, s.Hostname)
			}
		} else {
			out.several = true
		}
		out.byHost[s.Hostname] = s
	}
	return out
}

// exchange replaces services, in any order, and returns what there was for their hosts. It reports
// false if the order matters, or other hosts depend on them.
func (p *portServices) exchange(gone, come []*mesh.Service) (was map[string]*mesh.Service, ok bool) {
	was = make(map[string]*mesh.Service, len(gone)+len(come))
	for _, s := range gone {
		if p.several || hostname.IsWildcard(s.Hostname) {
			return nil, false
		}
		was[s.Hostname] = s
		delete(p.byHost, s.Hostname)
	}
	for _, s := range come {
		if p.byHost[s.Hostname] != nil || hostname.IsWildcard(s.Hostname) {
			return nil, false
		}
		if was[s.Hostname] == nil {
			was[s.Hostname], p.hosts = nil, append(p.hosts, s.Hostname)
		}
		p.byHost[s.Hostname] = s
	}
	if len(gone) > 0 {
		p.hosts = slices.DeleteFunc(p.hosts, func(host string) bool { return p.byHost[host] == nil })
	}
	return was, true
}

// onPort keeps the services that have a port.
func onPort(services []*mesh.Service, port uint32) (out []*mesh.Service) {
	for _, s := range services {
		if s.Port(port) != nil {
			out = append(out, s)
		}
	}
	return out
}

// includes reports whether a host of a rule has a name in common with one of the services.
func (p portServices) includes(host string) bool {
	if p.byHost[host] != nil {
		return true
	}
	candidates := p.wildcards
	if hostname.IsWildcard(host) {
		candidates = p.hosts
	}
	return slices.ContainsFunc(candidates, func(service string) bool { return hostname.Overlap(host, service) })
}

// names reports whether a host of a rule stands for services, so that it needs no virtual host of
// its own.
func (p portServices) names(host string) bool {
	if !hostname.IsWildcard(host) {
		return p.byHost[host] != nil
	}
	return slices.ContainsFunc(p.hosts, func(service string) bool { return hostname.Overlap(host, service) })
}

// routedBy lists the services that a host of a rule stands for. Of those under a wildcard, it has
// those for which no other rule's host is more specific.
func (p portServices) routedBy(vs *mesh.VirtualService, host string) []*mesh.Service {
	if !hostname.IsWildcard(host) {
		if s := p.byHost[host]; s != nil {
			return []*mesh.Service{s}
		}
		return nil
	}
	var out []*mesh.Service
	for _, service := range p.hosts {
		if hostname.Overlap(service, host) && p.egress.WildcardOwner(service) == vs {
			out = append(out, p.byHost[service])
		}
	}
	return out
}
