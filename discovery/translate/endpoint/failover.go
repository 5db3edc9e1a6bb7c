package endpoint

import (
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// How many ranks there are: own subzone, own zone, own region, the region to fail over to, any
// other. By region, there are not the first two.
const (
	localityRanks = 5
	regionRanks   = 3
)

// prioritized refines the priorities of groups by a rank.
func prioritized(groups []group, rank func(locality string) uint32, ranks uint32) []group {
	for i := range groups {
		groups[i].priority = groups[i].priority*ranks + rank(groups[i].locality)
	}
	return dense(groups)
}

// dense numbers the priorities from 0 without gaps, as Envoy asks for.
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

// localityRank ranks a locality by how much it has in common with the proxy's. Other regions it
// ranks by the first failover from the proxy's region.
func localityRank(v view.View, failover []*networking.LocalityLoadBalancerSetting_Failover) func(string) uint32 {
	own := locality(v.Mesh.LocalityOf(v.Proxy))
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
func regionRank(v view.View, failover []*networking.ZoneAwareLoadBalancerSetting_Failover) func(string) uint32 {
	own := locality(v.Mesh.LocalityOf(v.Proxy)).GetRegion()
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

// preferLabels divides the groups by how many of the labels, from the first on, an endpoint shares
// with the proxy.
func preferLabels(v view.View, groups []group, labels []string) []group {
	if len(labels) == 0 {
		return groups
	}
	own := v.Mesh.LabelsOf(v.Proxy)
	var out []group
	for _, g := range groups {
		out = append(out, g.dividedBy(func(m member) uint32 { return labelRank(labels, own, m) })...)
	}
	return dense(out)
}

// labelRank is 0 if all labels agree, and the higher, the earlier the first is that does not. If
// the first label is the network, another network outweighs all that follow, which still count
// within it.
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
	}
	out := make([]group, 0, len(parts))
	for _, r := range slices.Sorted(maps.Keys(parts)) {
		parts[r].weigh()
		out = append(out, *parts[r])
	}
	return out
}
