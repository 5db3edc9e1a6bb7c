package translate

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// preference is which endpoints of an upstream a proxy is sent to first, by where both are. At most one of the two settings is there.
type preference struct {
	byLocality *networking.LocalityLoadBalancerSetting
	byZone     *networking.ZoneAwareLoadBalancerSetting
	// always prefers also where nobody notices that endpoints fail.
	always bool
}

// preference is what the rule says, else the service, else the mesh; none if that is switched off.
func (v view) preference(u upstream) preference {
	lb := u.policy.GetLoadBalancer()
	if zone := lb.GetZoneAwareLbSetting(); zone != nil {
		return preference{byZone: zone, always: enabled(zone.GetEnabled())}
	}
	if setting := lb.GetLocalityLbSetting(); setting != nil {
		return byLocality(setting)
	}
	if labels := u.service.Distribution(); labels != nil {
		return preference{byLocality: &networking.LocalityLoadBalancerSetting{FailoverPriority: labels}, always: true}
	}
	if zone := v.config.GetZoneAwareLbSetting(); zone != nil {
		return preference{byZone: zone, always: enabled(zone.GetEnabled())}
	}
	if setting := v.config.GetLocalityLbSetting(); setting != nil {
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
func (v view) applyLocality(c *clusterv3.Cluster, u upstream) {
	p := v.preference(u)
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
func (v view) prefer(groups []group, u upstream) []group {
	p := v.preference(u)
	setting := p.byLocality
	switch {
	case p.byZone != nil:
		if !enabled(p.byZone.GetEnabled()) {
			return groups
		}
		groups = v.preferLabels(groups, p.byZone.GetFailoverPriority())
		return prioritized(groups, v.regionRank(p.byZone.GetFailover()), regionRanks)
	case setting == nil:
		return groups
	case setting.GetDistribute() != nil:
		return v.distribute(groups, setting.GetDistribute())
	case !p.always && u.policy.GetOutlierDetection() == nil:
		return groups
	}
	groups = v.preferLabels(groups, setting.GetFailoverPriority())
	if len(setting.GetFailoverPriority()) > 0 && len(setting.GetFailover()) == 0 {
		return groups
	}
	return prioritized(groups, v.localityRank(setting.GetFailover()), localityRanks)
}

// How many ranks there are: own subzone, own zone, own region, the region to fail over to, any other; or, by region, without the
// first two.
const (
	localityRanks = 5
	regionRanks   = 3
)

// prioritized refines the priorities of groups by a rank, and leaves no gaps between them.
func prioritized(groups []group, rank func(locality string) uint32, ranks uint32) []group {
	for i := range groups {
		groups[i].priority = groups[i].priority*ranks + rank(groups[i].locality)
	}
	return dense(groups)
}

// dense numbers the priorities from 0 without gaps, which Envoy asks for.
func dense(groups []group) []group {
	var used []uint32
	for _, g := range groups {
		used = append(used, g.priority)
	}
	slices.Sort(used)
	used = slices.Compact(used)
	for i := range groups {
		place, _ := slices.BinarySearch(used, groups[i].priority)
		groups[i].priority = uint32(place)
	}
	return groups
}

// localityRank ranks a locality by how much it has in common with the proxy's, and those that have nothing by the first failover
// that is from the proxy's region.
func (v view) localityRank(failover []*networking.LocalityLoadBalancerSetting_Failover) func(string) uint32 {
	own := locality(v.mesh.LocalityOf(v.proxy))
	i := slices.IndexFunc(failover, func(f *networking.LocalityLoadBalancerSetting_Failover) bool { return f.GetFrom() == own.GetRegion() })
	return func(of string) uint32 {
		switch l := locality(of); {
		case l.GetRegion() != own.GetRegion():
			if i >= 0 && l.GetRegion() != failover[i].GetTo() {
				return 4
			}
			return 3
		case l.GetZone() != own.GetZone():
			return 2
		case l.GetSubZone() != own.GetSubZone():
			return 1
		default:
			return 0
		}
	}
}

// regionRank leaves the zones of the proxy's region to Envoy.
func (v view) regionRank(failover []*networking.ZoneAwareLoadBalancerSetting_Failover) func(string) uint32 {
	own := locality(v.mesh.LocalityOf(v.proxy)).GetRegion()
	i := slices.IndexFunc(failover, func(f *networking.ZoneAwareLoadBalancerSetting_Failover) bool { return f.GetFrom() == own })
	return func(of string) uint32 {
		switch region := locality(of).GetRegion(); {
		case region == own:
			return 0
		case i >= 0 && region == failover[i].GetTo():
			return 1
		default:
			return 2
		}
	}
}

// preferLabels divides the groups by how many of the labels, from the first on, an endpoint shares with the proxy.
func (v view) preferLabels(groups []group, labels []string) []group {
	if len(labels) == 0 {
		return groups
	}
	own := v.mesh.LabelsOf(v.proxy)
	if len(own) == 0 {
		return groups
	}
	var out []group
	for _, g := range groups {
		out = append(out, g.dividedBy(func(m member) uint32 { return labelRank(labels, own, m) })...)
	}
	return dense(out)
}

// labelRank is 0 where all labels agree, and the higher, the earlier the first is that does not. A network that differs, if it is asked
// about first, outweighs all others, which still count within it.
func labelRank(labels []string, own map[string]string, m member) uint32 {
	lowest, away := uint32(len(labels)), uint32(0)
	for i, label := range labels {
		name, wanted, given := strings.Cut(label, "=")
		if !given {
			wanted = own[name]
		}
		switch {
		case m.label(name) == wanted:
		case i == 0 && label == mesh.LabelNetwork:
			away = lowest
		default:
			return away + lowest - uint32(i)
		}
	}
	return away
}

func (m member) label(name string) string {
	if value := m.labels[name]; value != "" || name != mesh.LabelNetwork {
		return value
	}
	return m.network
}

// dividedBy makes a group of each rank, the first rank first.
func (g group) dividedBy(rank func(member) uint32) []group {
	parts := map[uint32]*group{}
	for _, m := range g.members {
		r := rank(m)
		if parts[r] == nil {
			parts[r] = &group{locality: g.locality, priority: r}
		}
		parts[r].members = append(parts[r].members, m)
		parts[r].weight = saturated(parts[r].weight, m.weight)
	}
	out := make([]group, 0, len(parts))
	for _, r := range slices.Sorted(maps.Keys(parts)) {
		out = append(out, *parts[r])
	}
	return out
}

// distribute gives the localities the weights that the first distribution from the proxy's locality names, and no endpoints to those
// that it does not name. Several localities under one name share its weight as their own weights say.
func (v view) distribute(groups []group, settings []*networking.LocalityLoadBalancerSetting_Distribute) []group {
	own := v.mesh.LocalityOf(v.proxy)
	i := slices.IndexFunc(settings, func(d *networking.LocalityLoadBalancerSetting_Distribute) bool {
		return localityWithin(own, d.GetFrom())
	})
	if i < 0 {
		return groups
	}
	left := make([]*group, len(groups))
	for j := range groups {
		left[j] = &groups[j]
	}
	for _, to := range narrowestFirst(settings[i].GetTo()) {
		var chosen []*group
		left = slices.DeleteFunc(left, func(g *group) bool {
			within := localityWithin(g.locality, to)
			if within {
				chosen = append(chosen, g)
			}
			return within
		})
		share(chosen, settings[i].GetTo()[to])
	}
	for _, g := range left {
		g.members = nil
	}
	return groups
}

// share divides a weight. One that is not positive changes nothing, as in Istio.
func share(groups []*group, weight uint32) {
	total := 0.0
	for _, g := range groups {
		total += float64(max(g.weight, 1))
	}
	for _, g := range groups {
		if part := float64(max(g.weight, 1)) * float64(weight) / total; part > 0 {
			g.weight = uint32(math.Ceil(part))
		}
	}
}

// narrowestFirst orders localities so that one within another is asked for before it.
func narrowestFirst(to map[string]uint32) []string {
	return slices.SortedFunc(maps.Keys(to), func(a, b string) int {
		return cmp.Or(cmp.Compare(depth(b), depth(a)), cmp.Compare(a, b))
	})
}

// depth counts the parts of a locality that are said.
func depth(of string) (n int) {
	for part := range strings.SplitSeq(of, "/") {
		if part != "*" && part != "" {
			n++
		}
	}
	return n
}

// localityWithin reports whether a locality is one of those that a pattern stands for: parts that are * or left out are any.
func localityWithin(of, pattern string) bool {
	l, p := locality(of), locality(pattern)
	any := func(s string) bool { return s == "*" || s == "" }
	return (p.GetRegion() == "*" || p.GetRegion() == l.GetRegion()) &&
		(any(p.GetZone()) || p.GetZone() == l.GetZone()) &&
		(any(p.GetSubZone()) || p.GetSubZone() == l.GetSubZone())
}
