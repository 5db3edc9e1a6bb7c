package mesh

import (
	"sync"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// Scope is what a proxy may see of a mesh. Proxies of one namespace share one.
type Scope struct {
	Namespace string

	// Egress is where applications' connections come in; each listens for its own services and obeys its own rules.
	Egress []*Egress

	// Services has one service a host: what clusters are made for.
	Services []*Service

	mesh   *Mesh
	byHost map[string]*Service
}

// Egress is a set of services and the routing rules for them.
type Egress struct {
	// Services may have several for a host, where several ServiceEntries name it.
	Services        []*Service
	VirtualServices []*VirtualService

	wildcardOwner map[string]*VirtualService
}

// scopeOnce makes a scope when the first proxy asks, and lets the others wait for it.
type scopeOnce struct {
	once  sync.Once
	scope *Scope
}

// Scope returns what a proxy sees.
func (m *Mesh) Scope(p *Proxy) *Scope {
	m.scopesMu.Lock()
	cell := m.scopes[p.Namespace]
	if cell == nil {
		cell = &scopeOnce{}
		m.scopes[p.Namespace] = cell
	}
	m.scopesMu.Unlock()
	cell.once.Do(func() { cell.scope = m.buildScope(p.Namespace) })
	return cell.scope
}

func (m *Mesh) buildScope(namespace string) *Scope {
	egress := &Egress{
		Services:        oneNamespaceAHost(m.servicesFor(namespace), namespace),
		VirtualServices: m.virtualServicesFor(namespace),
	}
	egress.wildcardOwner = wildcardOwners(egress)
	s := &Scope{Namespace: namespace, Egress: []*Egress{egress}, mesh: m, byHost: map[string]*Service{}}
	for _, svc := range egress.Services {
		s.add(svc)
	}
	return s
}

// servicesFor lists what is exported to a namespace: what is exported to it by name before what is public.
func (m *Mesh) servicesFor(namespace string) []*Service {
	var named, public []*Service
	for _, s := range m.services.all {
		if s.visibility.public() {
			public = append(public, s)
		} else if s.visibility.includes(namespace) {
			named = append(named, s)
		}
	}
	return append(named, public...)
}

// virtualServicesFor lists the rules a namespace obeys: its private ones, those exported to it by name, the public ones.
func (m *Mesh) virtualServicesFor(namespace string) []*VirtualService {
	var private, named, public []*VirtualService
	for _, vs := range m.virtual.mesh {
		switch {
		case vs.visibility.public():
			public = append(public, vs)
		case !vs.visibility.includes(namespace):
		case vs.Resource.Namespace == namespace:
			private = append(private, vs)
		default:
			named = append(named, vs)
		}
	}
	return append(append(private, named...), public...)
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

// add merges a service into the scope: the first for a host counts, later ones contribute the ports that it lacks.
func (s *Scope) add(svc *Service) {
	existing, known := s.byHost[svc.Hostname]
	if !known {
		s.byHost[svc.Hostname] = svc
		s.Services = append(s.Services, svc)
		return
	}
	if !existing.mergeable(svc) {
		return
	}
	merged := existing.withPorts(svc)
	if len(merged.Ports) == len(existing.Ports) {
		return
	}
	s.byHost[svc.Hostname] = merged
	for i, old := range s.Services {
		if old == existing {
			s.Services[i] = merged
		}
	}
}

// Service returns the service for a host, or nil.
func (s *Scope) Service(host string) *Service { return s.byHost[host] }

// DestinationRule returns the rule that a proxy obeys for a host, or nil: one that selects the proxy's workload before
// one for all.
func (s *Scope) DestinationRule(p *Proxy, host string) *DestinationRule {
	svc := s.byHost[host]
	if svc == nil {
		return nil
	}
	var general *DestinationRule
	for _, rule := range s.mesh.rules.find(s.Namespace, s.mesh.Config.GetRootNamespace(), svc) {
		if !rule.forWorkloads() {
			general = rule
		} else if rule.Resource.Namespace == s.Namespace && LabelsWithin(rule.Spec.GetWorkloadSelector().GetMatchLabels(), p.Labels) {
			return rule
		}
	}
	return general
}

// InboundDestinationRule returns the rule for a host that the proxy's own workload serves. Rules for selected
// workloads are for clients and do not count.
func (s *Scope) InboundDestinationRule(host string) *DestinationRule {
	svc := s.byHost[host]
	if svc == nil {
		return nil
	}
	var general *DestinationRule
	for _, rule := range s.mesh.rules.find(s.Namespace, s.mesh.Config.GetRootNamespace(), svc) {
		if !rule.forWorkloads() {
			general = rule
		}
	}
	return general
}

// AllowsAny reports whether traffic to unknown destinations goes where the client sent it, and not nowhere.
func (s *Scope) AllowsAny() bool {
	return s.mesh.Config.GetOutboundTrafficPolicy().GetMode() != meshconfig.MeshConfig_OutboundTrafficPolicy_REGISTRY_ONLY
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
