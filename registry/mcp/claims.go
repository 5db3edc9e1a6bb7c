package mcp

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// claims are which ServiceEntries of a namespace claim a host at the server. Those that are without
// effect there for a host, because another origin's count before them, must not count here beside the
// first only because they come from the same registry now.
type claims map[hostAt]map[kinds.Key]*kinds.Resource

type hostAt struct{ namespace, host string }

func hostsOf(r *kinds.Resource) []string {
	spec, is := r.Spec.Message().(*networking.ServiceEntry)
	if !is {
		return nil
	}
	return spec.GetHosts()
}

func (c claims) add(r *kinds.Resource) {
	for _, host := range hostsOf(r) {
		at := hostAt{r.Namespace, host}
		if c[at] == nil {
			c[at] = map[kinds.Key]*kinds.Resource{}
		}
		c[at][r.Key()] = r
	}
}

func (c claims) remove(r *kinds.Resource) {
	for _, host := range hostsOf(r) {
		at := hostAt{r.Namespace, host}
		if delete(c[at], r.Key()); len(c[at]) == 0 {
			delete(c, at)
		}
	}
}

// eachRival calls for each ServiceEntry that claims a host of this one.
func (c claims) eachRival(r *kinds.Resource, do func(kinds.Key)) {
	for _, host := range hostsOf(r) {
		for k := range c[hostAt{r.Namespace, host}] {
			do(k)
		}
	}
}

// hosts are those for which a ServiceEntry counts.
func (c claims) hosts(r *kinds.Resource) []string {
	var out []string
	for _, host := range hostsOf(r) {
		if r.Claim().CountsWith(c.first(hostAt{r.Namespace, host}, r).Claim()) {
			out = append(out, host)
		}
	}
	return out
}

func (c claims) first(at hostAt, r *kinds.Resource) *kinds.Resource {
	for _, other := range c[at] {
		if kinds.CompareAge(other, r) < 0 {
			r = other
		}
	}
	return r
}
