package endpoint

import (
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// prefer gives the groups weights or priorities. Without outlier detection there are no priorities:
// Envoy would never leave the first.
func prefer(v view.View, groups []group, u upstream.Upstream) []group {
	p := upstream.PreferenceOf(v, u)
	setting := p.ByLocality
	switch {
	case p.ZoneDisabled():
		return groups
	case p.ByZone != nil:
		groups = preferLabels(v, groups, p.ByZone.GetFailoverPriority())
		return prioritized(groups, regionRank(v, p.ByZone.GetFailover()), regionRanks)
	case setting == nil:
		return groups
	case setting.GetDistribute() != nil:
		return distribute(v, groups, setting.GetDistribute())
	case !p.Always && u.Policy.GetOutlierDetection() == nil:
		return groups
	}
	groups = preferLabels(v, groups, setting.GetFailoverPriority())
	if len(setting.GetFailoverPriority()) > 0 && len(setting.GetFailover()) == 0 {
		return groups
	}
	return prioritized(groups, localityRank(v, setting.GetFailover()), localityRanks)
}
