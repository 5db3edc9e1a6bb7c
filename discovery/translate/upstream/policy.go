package upstream

import (
	"cmp"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// PortPolicy is the policy for a port: the port's own settings, which inherit nothing, or else
// those for all ports.
func PortPolicy(policy *networking.TrafficPolicy, port *mesh.Port) *networking.TrafficPolicy {
	own := PortSettings(policy, port)
	if own == nil {
		return policy
	}
	return &networking.TrafficPolicy{
		ConnectionPool:   own.GetConnectionPool(),
		OutlierDetection: own.GetOutlierDetection(),
		LoadBalancer:     own.GetLoadBalancer(),
		Tls:              own.GetTls(),
	}
}

// PortSettings are what a policy says of a single port, or nil.
func PortSettings(policy *networking.TrafficPolicy, port *mesh.Port) *networking.TrafficPolicy_PortTrafficPolicy {
	for _, settings := range policy.GetPortLevelSettings() {
		if settings.GetPort().GetNumber() == port.Number {
			return settings
		}
	}
	return nil
}

// subsetPolicy puts a subset's policy over that of the service's port. What the subset leaves out
// it inherits, unless it has settings for the port: those replace everything.
func subsetPolicy(base, subset *networking.TrafficPolicy, port *mesh.Port) *networking.TrafficPolicy {
	if subset == nil {
		return base
	}
	own := PortPolicy(subset, port)
	if base == nil || PortSettings(subset, port) != nil {
		return own
	}
	return &networking.TrafficPolicy{
		ConnectionPool:   cmp.Or(own.GetConnectionPool(), base.GetConnectionPool()),
		OutlierDetection: cmp.Or(own.GetOutlierDetection(), base.GetOutlierDetection()),
		LoadBalancer:     cmp.Or(own.GetLoadBalancer(), base.GetLoadBalancer()),
		Tls:              cmp.Or(own.GetTls(), base.GetTls()),
		Tunnel:           cmp.Or(own.GetTunnel(), base.GetTunnel()),
		ProxyProtocol:    cmp.Or(own.GetProxyProtocol(), base.GetProxyProtocol()),
		RetryBudget:      cmp.Or(own.GetRetryBudget(), base.GetRetryBudget()),
	}
}

// WithDefaults fills in what the mesh says for services whose policy says nothing.
func WithDefaults(v view.View, policy *networking.TrafficPolicy) *networking.TrafficPolicy {
	defaults := v.Config.GetDefaultTrafficPolicy()
	if defaults.GetConnectionPool() == nil && defaults.GetOutlierDetection() == nil {
		return policy
	}
	return &networking.TrafficPolicy{
		ConnectionPool:   cmp.Or(policy.GetConnectionPool(), defaults.GetConnectionPool()),
		OutlierDetection: cmp.Or(policy.GetOutlierDetection(), defaults.GetOutlierDetection()),
		LoadBalancer:     policy.GetLoadBalancer(),
		Tls:              policy.GetTls(),
		Tunnel:           policy.GetTunnel(),
		ProxyProtocol:    policy.GetProxyProtocol(),
		RetryBudget:      policy.GetRetryBudget(),
	}
}

// guided is a policy with what those of the Gateway API have for the port: the TLS of a BackendTLSPolicy,
// and the bound on retries of an XBackendTrafficPolicy, if the rule has none. Only what the client's own
// namespace says of TLS to a service of another one counts more than theirs.
func (b Backend) guided(v view.View, policy *networking.TrafficPolicy, port *mesh.Port) *networking.TrafficPolicy {
	tls, retries := cmp.Or(b.Policies.TLS(port), policy.GetTls()), cmp.Or(policy.GetRetryBudget(), b.Policies.Retries())
	if policy.GetTls() != nil && b.Rule != nil && b.Rule.Resource.Namespace == v.Scope.Namespace && b.Service.Namespace != v.Scope.Namespace {
		tls = policy.GetTls()
	}
	if tls == policy.GetTls() && retries == policy.GetRetryBudget() {
		return policy
	}
	return &networking.TrafficPolicy{
		ConnectionPool:   policy.GetConnectionPool(),
		OutlierDetection: policy.GetOutlierDetection(),
		LoadBalancer:     policy.GetLoadBalancer(),
		Tls:              tls,
		Tunnel:           policy.GetTunnel(),
		ProxyProtocol:    policy.GetProxyProtocol(),
		RetryBudget:      retries,
	}
}

// SpecOf is the spec of a rule, or nil.
func SpecOf(rule *mesh.DestinationRule) *networking.DestinationRule {
	if rule == nil {
		return nil
	}
	return rule.Spec
}
