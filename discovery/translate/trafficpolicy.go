package translate

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// portPolicy is the policy for a port: its own settings where it has any, which inherit nothing, else those for all.
func portPolicy(policy *networking.TrafficPolicy, port *mesh.Port) *networking.TrafficPolicy {
	own := portSettings(policy, port)
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

func portSettings(policy *networking.TrafficPolicy, port *mesh.Port) *networking.TrafficPolicy_PortTrafficPolicy {
	for _, settings := range policy.GetPortLevelSettings() {
		if settings.GetPort().GetNumber() == port.Number {
			return settings
		}
	}
	return nil
}

// subsetPolicy lays a subset's policy over that of the service's port. What the subset leaves out it inherits, unless
// it has settings for the port: those replace everything.
func subsetPolicy(base, subset *networking.TrafficPolicy, port *mesh.Port) *networking.TrafficPolicy {
	if subset == nil {
		return base
	}
	own := portPolicy(subset, port)
	if base == nil || portSettings(subset, port) != nil {
		return own
	}
	return &networking.TrafficPolicy{
		ConnectionPool:   orElse(own.GetConnectionPool(), base.GetConnectionPool()),
		OutlierDetection: orElse(own.GetOutlierDetection(), base.GetOutlierDetection()),
		LoadBalancer:     orElse(own.GetLoadBalancer(), base.GetLoadBalancer()),
		Tls:              orElse(own.GetTls(), base.GetTls()),
		Tunnel:           orElse(own.GetTunnel(), base.GetTunnel()),
		ProxyProtocol:    orElse(own.GetProxyProtocol(), base.GetProxyProtocol()),
		RetryBudget:      orElse(own.GetRetryBudget(), base.GetRetryBudget()),
	}
}

// meshDefaults fills in what the mesh says for every service that says nothing.
func (v view) meshDefaults(policy *networking.TrafficPolicy) *networking.TrafficPolicy {
	defaults := v.config.GetDefaultTrafficPolicy()
	if defaults.GetConnectionPool() == nil && defaults.GetOutlierDetection() == nil {
		return policy
	}
	return &networking.TrafficPolicy{
		ConnectionPool:   orElse(policy.GetConnectionPool(), defaults.GetConnectionPool()),
		OutlierDetection: orElse(policy.GetOutlierDetection(), defaults.GetOutlierDetection()),
		LoadBalancer:     policy.GetLoadBalancer(),
		Tls:              policy.GetTls(),
		Tunnel:           policy.GetTunnel(),
		ProxyProtocol:    policy.GetProxyProtocol(),
		RetryBudget:      policy.GetRetryBudget(),
	}
}

func orElse[T any](value, fallback *T) *T {
	if value != nil {
		return value
	}
	return fallback
}
