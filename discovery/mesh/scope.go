package mesh

import (
	"slices"
	"sync"
	"sync/atomic"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// Scope is what a proxy may see of a mesh. Proxies of one namespace that obey the same Sidecar share one.
type Scope struct {
	Namespace string
	// Sidecar is what limits the scope, and SidecarSpec what it says; both are nil where nothing does.
	Sidecar     *kinds.Resource
	SidecarSpec *networking.Sidecar

	// Egress is where applications' connections come in; each listens for its own services and obeys its own rules.
	Egress []*Egress

	// Services has one service a host: what clusters are made for.
	Services []*Service

	// Unknown is what becomes of traffic to destinations that the scope does not know.
	Unknown *networking.OutboundTrafficPolicy

	config  *meshconfig.MeshConfig
	byHost  map[string]*Service
	rules   map[string][]*DestinationRule // by host
	derived map[derivation]*Service
}

// scopeKey is what scopes are shared by.
type scopeKey struct {
	namespace string
	sidecar   *kinds.Resource
}

// scopeOnce makes a scope when the first proxy asks, and lets the others wait for it.
type scopeOnce struct {
	once  sync.Once
	scope atomic.Pointer[Scope]
}

// Scope returns what a proxy sees. It is the one that the mesh before had, if nothing that it is made of has changed.
func (m *Mesh) Scope(p *Proxy) *Scope {
	key := scopeKey{p.Namespace, m.sidecars.sidecarOf(p)}
	m.scopesMu.Lock()
	cell := m.scopes[key]
	if cell == nil {
		cell = &scopeOnce{}
		m.scopes[key] = cell
	}
	m.scopesMu.Unlock()
	cell.once.Do(func() { cell.scope.Store(m.scopeAfter(key)) })
	return cell.scope.Load()
}

// scopeAfter is the scope of the mesh before where that shows the same.
func (m *Mesh) scopeAfter(key scopeKey) *Scope {
	var before *Scope
	if cell := m.scopesBefore[key]; cell != nil {
		before = cell.scope.Load()
	}
	if before != nil && m.scopesStay {
		return before
	}
	if s := m.buildScope(key, before); before == nil || !s.same(before) {
		return s
	}
	return before
}

// buildScope takes services that are derived from others from the scope before, if there was one.
func (m *Mesh) buildScope(key scopeKey, before *Scope) *Scope {
	s := &Scope{
		Namespace: key.namespace, Sidecar: key.sidecar, config: m.Config,
		byHost: map[string]*Service{}, rules: map[string][]*DestinationRule{}, derived: map[derivation]*Service{},
	}
	if key.sidecar != nil {
		s.SidecarSpec = specOf[*networking.Sidecar](key.sidecar)
	}
	s.Unknown = unknownDestinations(s.SidecarSpec, m.Config)
	s.Egress = m.egress(s, before)
	for _, egress := range s.Egress {
		for _, service := range egress.Services {
			s.add(service, before)
		}
		for _, service := range m.destinationsOf(egress, s, before) {
			s.add(service, before)
		}
	}
	for _, service := range s.Services {
		if rules := m.rules.find(key.namespace, m.Config.GetRootNamespace(), service); len(rules) > 0 {
			s.rules[service.Hostname] = rules
		}
	}
	return s
}

// add merges a service into the scope: the first for a host counts, later ones contribute the ports that it lacks.
func (s *Scope) add(service *Service, before *Scope) {
	existing, known := s.byHost[service.Hostname]
	if !known {
		s.byHost[service.Hostname] = service
		s.Services = append(s.Services, service)
		return
	}
	if existing == service || !existing.mergeable(service) || !service.addsTo(existing) {
		return
	}
	merged := s.derive(derivation{from: existing, with: service}, before, func() *Service { return existing.withPorts(service) })
	s.byHost[service.Hostname] = merged
	s.Services[slices.Index(s.Services, existing)] = merged
}

// Service returns the service for a host, or nil.
func (s *Scope) Service(host string) *Service { return s.byHost[host] }

// DestinationRule returns the rule that a proxy obeys for a host, or nil: one that selects the proxy's workload before
// one for all.
func (s *Scope) DestinationRule(p *Proxy, host string) *DestinationRule {
	var general *DestinationRule
	for _, rule := range s.rules[host] {
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
	var general *DestinationRule
	for _, rule := range s.rules[host] {
		if !rule.forWorkloads() {
			general = rule
		}
	}
	return general
}

// AllowsAny reports whether traffic to unknown destinations goes where the client sent it, and not nowhere.
func (s *Scope) AllowsAny() bool {
	return s.Unknown.GetMode() != networking.OutboundTrafficPolicy_REGISTRY_ONLY
}

// unknownDestinations is the Sidecar's policy, or the mesh's. The modes have the same numbers in both.
func unknownDestinations(sidecar *networking.Sidecar, config *meshconfig.MeshConfig) *networking.OutboundTrafficPolicy {
	if sidecar.GetOutboundTrafficPolicy() != nil {
		return sidecar.GetOutboundTrafficPolicy()
	}
	return &networking.OutboundTrafficPolicy{
		Mode: networking.OutboundTrafficPolicy_Mode(config.GetOutboundTrafficPolicy().GetMode()),
	}
}
