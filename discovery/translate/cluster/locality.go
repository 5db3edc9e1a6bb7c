package cluster

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// applyLocality has Envoy use the weights of localities if a rule gives them a meaning, and choose
// by zone itself if it is told to.
func (d *draft) applyLocality(v view.View, u upstream.Upstream) {
	p := upstream.PreferenceOf(v, u)
	failover := p.Always || d.GetOutlierDetection() != nil
	switch setting := p.ByLocality; {
	case p.ByZone != nil:
		d.CommonLbConfig.LocalityConfigSpecifier = &clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig_{ZoneAwareLbConfig: zoneAware(p)}
	case setting.GetDistribute() != nil, failover && (setting.GetFailover() != nil || setting.GetFailoverPriority() != nil):
		d.CommonLbConfig.LocalityConfigSpecifier = &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig_{
			LocalityWeightedLbConfig: &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig{},
		}
	}
}

func zoneAware(p upstream.Preference) *clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig {
	out := &clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig{}
	if size := p.ByZone.GetMinClusterSize(); size != nil {
		out.MinClusterSize = wrapperspb.UInt64(uint64(size.GetValue()))
	}
	if p.ZoneDisabled() {
		out.RoutingEnabled = &typev3.Percent{} // or Envoy would, by default
	}
	return out
}
