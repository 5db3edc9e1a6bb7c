package mesh

import (
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// Scope is what a proxy may see of a mesh. Sidecars of one namespace that obey the same Sidecar
// share a scope, and so do the gateways of a namespace.
type Scope struct {
	Namespace string
	// Sidecar is the resource that limits the scope, and SidecarSpec its spec. Both are nil if none
	// does.
	Sidecar     *kinds.Resource
	SidecarSpec *networking.Sidecar

	// Egress are the listeners for applications. Each has its own services, and obeys its own
	// rules.
	Egress []*Egress

	// Services has one service for each host: those that need clusters.
	Services []*Service

	// Unknown says what happens to traffic to destinations outside the scope.
	Unknown *networking.OutboundTrafficPolicy

	config *meshconfig.MeshConfig
	router bool // for gateways
	byHost table[string, *Service]
	rules  table[string, []*DestinationRule] // by host
	// policies are those of the Gateway API for services, by host.
	policies table[string, *BackendPolicies]
	// listed is how many of Services the listener has; the others are there because rules, or
	// telemetry, go to them. With several listeners it is not known.
	listed int

	build   int          // of the mesh that it was made for
	follows int          // the build of the scope that it was made from
	change  *ScopeChange // nil if it was not made from another
}

// scopeKey tells scopes apart. Proxies of one key share a scope.
type scopeKey struct {
	namespace string
	router    bool
	sidecar   *kinds.Resource
}

// ScopeName is a scopeKey that stays the same if the Sidecar is edited.
type ScopeName struct {
	Namespace string
	Router    bool
	Sidecar   kinds.Key // the zero Key if there is none
}

// Name tells scopes of one mesh apart, and finds that of the next one for the same proxies.
func (s *Scope) Name() ScopeName {
	name := ScopeName{Namespace: s.Namespace, Router: s.router}
	if s.Sidecar != nil {
		name.Sidecar = s.Sidecar.Key()
	}
	return name
}

// buildScope makes a scope from nothing.
func (c *catalog) buildScope(key scopeKey) *Scope {
	s := &Scope{Namespace: key.namespace, Sidecar: key.sidecar, config: c.config, router: key.router}
	if key.sidecar != nil {
		s.SidecarSpec = specOf[*networking.Sidecar](key.sidecar)
	}
	s.Unknown = unknownDestinations(s.SidecarSpec, c.config)
	s.Egress = c.egress(s)
	byHost, rules, policies := s.byHost.edit(), s.rules.edit(), s.policies.edit()
	byHost.expect(len(s.Egress[0].Services))
	for _, egress := range s.Egress {
		s.add(egress.Services, byHost)
		s.listed = len(s.Services)
		s.add(c.destinationsOf(egress), byHost)
	}
	s.add(c.collectorsFor(s.Namespace), byHost)
	if first := s.Egress[0].Services; slices.Equal(s.Services, first) {
		s.Services = first // a list that other scopes may share
	}
	for _, service := range s.Services {
		if found := c.rulesFor(s, service); len(found) > 0 {
			rules.set(service.Hostname, found)
		}
		if held := c.api.backendPolicies(service); held != nil {
			policies.set(service.Hostname, held)
		}
	}
	s.byHost, s.rules, s.policies = byHost.done(), rules.done(), policies.done()
	return s
}

// add merges services into the scope. The first service for a host counts; later ones add the ports
// that it lacks.
func (s *Scope) add(services []*Service, byHost *tableEdit[string, *Service]) {
	for _, service := range services {
		existing, known := byHost.find(service.Hostname)
		if !known {
			byHost.set(service.Hostname, service)
			s.Services = append(s.Services, service)
		} else if merged := existing.with(service); merged != existing {
			byHost.set(service.Hostname, merged)
			s.Services[slices.Index(s.Services, existing)] = merged
		}
	}
}

// with returns the service with the ports that it lacks and another one for its host has.
func (s *Service) with(other *Service) *Service {
	if s == other || !s.mergeable(other) || !other.addsTo(s) {
		return s
	}
	return s.withPorts(other)
}

func (c *catalog) rulesFor(s *Scope, service *Service) []*DestinationRule {
	return c.rules.find(s.Namespace, c.config.GetRootNamespace(), service)
}

// Service returns the service for a host, or nil.
func (s *Scope) Service(host string) *Service { return s.byHost.get(host) }

// DestinationRule returns the rule that a proxy obeys for a host, or nil. One that selects the
// proxy's workload comes before one for all.
func (s *Scope) DestinationRule(p *Proxy, host string) *DestinationRule {
	var general *DestinationRule
	for _, rule := range s.rules.get(host) {
		if !rule.forWorkloads() {
			general = rule
		} else if rule.Resource.Namespace == s.Namespace && kinds.LabelsWithin(rule.Spec.GetWorkloadSelector().GetMatchLabels(), p.Labels) {
			return rule
		}
	}
	return general
}

// Policies returns what policies of the Gateway API have for a host, or nil.
func (s *Scope) Policies(host string) *BackendPolicies { return s.policies.get(host) }

// WithSessions are the hosts for which policies have sessions.
func (s *Scope) WithSessions() (hosts map[string]bool) {
	for host, held := range s.policies.each() {
		if held.Session() == nil {
			continue
		}
		if hosts == nil {
			hosts = map[string]bool{}
		}
		hosts[host] = true
	}
	return hosts
}

// InboundDestinationRule returns the rule for a host that the proxy's own workload serves. Rules
// that select workloads are for clients, and do not count.
func (s *Scope) InboundDestinationRule(host string) *DestinationRule {
	var general *DestinationRule
	for _, rule := range s.rules.get(host) {
		if !rule.forWorkloads() {
			general = rule
		}
	}
	return general
}

// AllowsAny reports whether traffic to unknown destinations goes where the client sent it, instead
// of nowhere.
func (s *Scope) AllowsAny() bool {
	return s.Unknown.GetMode() != networking.OutboundTrafficPolicy_REGISTRY_ONLY
}

// Scope returns what a proxy sees. It is that of an earlier mesh if nothing in it changed.
func (m *Mesh) Scope(p *Proxy) *Scope {
	key := scopeKey{p.Namespace, p.Type == Router, m.sidecars.sidecarOf(p)}
	return m.scopes.get(key, func() *Scope { return m.scopeOf(key) })
}

// unknownDestinations is the Sidecar's policy, or the mesh's. Both number the modes alike.
func unknownDestinations(sidecar *networking.Sidecar, config *meshconfig.MeshConfig) *networking.OutboundTrafficPolicy {
	if sidecar.GetOutboundTrafficPolicy() != nil {
		return sidecar.GetOutboundTrafficPolicy()
	}
	return &networking.OutboundTrafficPolicy{
		Mode: networking.OutboundTrafficPolicy_Mode(config.GetOutboundTrafficPolicy().GetMode()),
	}
}
