package endpoint

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// distribute gives the localities the weights that the first distribution from the proxy's locality
// names, and takes the endpoints of all others away. Localities under one name share its weight as
// their own weights say.
func distribute(v view.View, groups []group, settings []*networking.LocalityLoadBalancerSetting_Distribute) []group {
	own := v.Mesh.LocalityOf(v.Proxy)
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

// share divides a weight. As in Istio, a weight of 0 changes nothing.
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

// narrowestFirst puts a locality that is within another before it.
func narrowestFirst(to map[string]uint32) []string {
	return slices.SortedFunc(maps.Keys(to), func(a, b string) int {
		return cmp.Or(cmp.Compare(depth(b), depth(a)), cmp.Compare(a, b))
	})
}

// depth counts the parts of a locality that are given.
func depth(of string) (n int) {
	for part := range strings.SplitSeq(of, "/") {
		if part != "*" && part != "" {
			n++
		}
	}
	return n
}

// localityWithin reports whether a pattern includes a locality. Parts that are * or left out
// include any.
func localityWithin(of, pattern string) bool {
	l, p := locality(of), locality(pattern)
	fits := func(pattern, part string) bool { return pattern == "*" || pattern == "" || pattern == part }
	return (p.GetRegion() == "*" || p.GetRegion() == l.GetRegion()) && fits(p.GetZone(), l.GetZone()) && fits(p.GetSubZone(), l.GetSubZone())
}
