package translate

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// preference is which endpoints of an upstream a proxy is sent to first, by where both are. At most one of the two settings is there.
type preference struct {
	byLocality *networking.LocalityLoadBalancerSetting
	byZone     *networking.ZoneAwareLoadBalancerSetting
	// always prefers also where nobody notices that endpoints fail.
	always bool
}

// preferenceOf is what the rule says, else the service, else the mesh; none if that is switched off.
func preferenceOf(v view.View, u upstream.Upstream) preference {
	lb := u.Policy.GetLoadBalancer()
	if zone := lb.GetZoneAwareLbSetting(); zone != nil {
		return preference{byZone: zone, always: enabled(zone.GetEnabled())}
	}
	if setting := lb.GetLocalityLbSetting(); setting != nil {
		return byLocality(setting)
	}
	if labels := u.Service.Distribution(); labels != nil {
		return preference{byLocality: &networking.LocalityLoadBalancerSetting{FailoverPriority: labels}, always: true}
	}
	if zone := v.Config.GetZoneAwareLbSetting(); zone != nil {
		return preference{byZone: zone, always: enabled(zone.GetEnabled())}
	}
	if setting := v.Config.GetLocalityLbSetting(); setting != nil {
		return byLocality(setting)
	}
	return preference{}
}

func byLocality(setting *networking.LocalityLoadBalancerSetting) preference {
	if !enabled(setting.GetEnabled()) {
		return preference{}
	}
	return preference{byLocality: setting}
}

// enabled is what a switch says that is on unless someone turned it off.
func enabled(value *wrapperspb.BoolValue) bool { return value == nil || value.GetValue() }

// applyLocality has Envoy heed the weights of localities where a rule gives them a meaning, and choose by zone itself where it is told to.
func applyLocality(v view.View, c *clusterv3.Cluster, u upstream.Upstream) {
	p := preferenceOf(v, u)
	failover := p.always || c.GetOutlierDetection() != nil
	switch setting := p.byLocality; {
	case p.byZone != nil:
		c.CommonLbConfig.LocalityConfigSpecifier = &clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig_{ZoneAwareLbConfig: zoneAware(p.byZone)}
	case setting.GetDistribute() != nil, failover && (setting.GetFailover() != nil || setting.GetFailoverPriority() != nil):
		c.CommonLbConfig.LocalityConfigSpecifier = &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig_{
			LocalityWeightedLbConfig: &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig{},
		}
	}
}

func zoneAware(setting *networking.ZoneAwareLoadBalancerSetting) *clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig {
	out := &clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig{}
	if size := setting.GetMinClusterSize(); size != nil {
		out.MinClusterSize = wrapperspb.UInt64(uint64(size.GetValue()))
	}
	if !enabled(setting.GetEnabled()) {
		out.RoutingEnabled = &typev3.Percent{} // or Envoy would, by default
	}
	return out
}

// prefer gives the groups weights or priorities. Without outlier detection there are no priorities: Envoy would never leave the first.
func prefer(v view.View, groups []group, u upstream.Upstream) []group {
	p := preferenceOf(v, u)
	setting := p.byLocality
	switch {
	case p.byZone != nil:
		if !enabled(p.byZone.GetEnabled()) {
			return groups
		}
		groups = preferLabels(v, groups, p.byZone.GetFailoverPriority())
		return prioritized(groups, regionRank(v, p.byZone.GetFailover()), regionRanks)
	case setting == nil:
		return groups
	case setting.GetDistribute() != nil:
		return distribute(v, groups, setting.GetDistribute())
	case !p.always && u.Policy.GetOutlierDetection() == nil:
		return groups
	}
	groups = preferLabels(v, groups, setting.GetFailoverPriority())
	if len(setting.GetFailoverPriority()) > 0 && len(setting.GetFailover()) == 0 {
		return groups
	}
	return prioritized(groups, localityRank(v, setting.GetFailover()), localityRanks)
}
