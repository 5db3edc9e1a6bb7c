package mesh

import (
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// Scope is what a proxy may see of a mesh. Sidecars of one namespace that obey the same Sidecar share one, and so do its gateways.
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

	config *meshconfig.MeshConfig
	router bool // it is what gateways see
	byHost table[string, *Service]
	rules  table[string, []*DestinationRule] // by host
	// listed is how many of Services a listener has; the others are there since rules send traffic to them. With several listeners
	// it is not known.
	listed int

	build   int          // of the mesh that the scope was made for
	follows int          // the build of the scope that it was made from
	change  *ScopeChange // nil if the scope was not made from another
}

// scopeKey is what scopes are shared by.
type scopeKey struct {
	namespace string
	router    bool
	sidecar   *kinds.Resource
}

// buildScope makes a scope of everything that it shows.
func (c *catalog) buildScope(key scopeKey) *Scope {
	s := &Scope{Namespace: key.namespace, Sidecar: key.sidecar, config: c.config, router: key.router}
	if key.sidecar != nil {
		s.SidecarSpec = specOf[*networking.Sidecar](key.sidecar)
	}
	s.Unknown = unknownDestinations(s.SidecarSpec, c.config)
	s.Egress = c.egress(s)
	byHost, rules := s.byHost.edit(), s.rules.edit()
	byHost.expect(len(s.Egress[0].Services))
	for _, egress := range s.Egress {
		s.add(egress.Services, byHost)
		s.listed = len(s.Services)
		s.add(c.destinationsOf(egress), byHost)
	}
	if first := s.Egress[0].Services; slices.Equal(s.Services, first) {
		s.Services = first // which others may have, too
	}
	for _, service := range s.Services {
		if found := c.rulesFor(s, service); len(found) > 0 {
			rules.set(service.Hostname, found)
		}
	}
	s.byHost, s.rules = byHost.done(), rules.done()
	return s
}

// add merges services into the scope: the first for a host counts, later ones contribute the ports that it lacks.
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

// with is the service with what another for its host contributes: the ports that it lacks.
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

// DestinationRule returns the rule that a proxy obeys for a host, or nil: one that selects the proxy's workload before
// one for all.
func (s *Scope) DestinationRule(p *Proxy, host string) *DestinationRule {
	var general *DestinationRule
	for _, rule := range s.rules.get(host) {
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
	for _, rule := range s.rules.get(host) {
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

// Scope returns what a proxy sees. It is the one that an earlier mesh had, if nothing that it is made of has changed.
func (m *Mesh) Scope(p *Proxy) *Scope {
	key := scopeKey{p.Namespace, p.Type == Router, m.sidecars.sidecarOf(p)}
	return m.scopes.get(key, func() *Scope { return m.scopeOf(key) })
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
