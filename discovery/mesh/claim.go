package mesh

import (
	"fmt"
	"slices"
)

// ofFirstOrigin returns the services of those that come from the first of their origins, or from
// another registry of its set: what the mesh has of its own counts before what registries have.
func ofFirstOrigin(sorted []*Service) []*Service {
	others := func(s *Service) bool { return !s.countsWith(sorted[0]) }
	if !slices.ContainsFunc(sorted, others) {
		return sorted
	}
	return slices.DeleteFunc(slices.Clone(sorted), others)
}

// countsWith reports whether a service is of the origin of the first that claims its host, or of the
// same set of registries.
func (s *Service) countsWith(first *Service) bool {
	return s.claim.Rank == first.claim.Rank || s.Namespace == first.Namespace && s.claim.CountsWith(first.claim)
}

// replaceClaims finds again who claims the changed hosts although somebody counts before it. A mesh
// without registries has nothing to find.
func (x *serviceIndex) replaceClaims(hosts map[hostKey]ownChange) {
	for _, c := range hosts {
		x.joined = x.joined || slices.ContainsFunc(c.now, func(s *Service) bool { return s.claim.Rank > 0 })
	}
	if !x.joined {
		return
	}
	claims := x.claims.edit()
	for key := range hosts {
		problems := x.claimsOf(key.host)
		claims.put(key.host, problems, len(problems) == 0)
	}
	x.claims = claims.done()
}

// claimsOf returns the problems of entries that claim a host of an earlier origin.
func (x *serviceIndex) claimsOf(host string) (problems []Problem) {
	var all []*Service
	seen := map[string]bool{}
	for _, s := range x.byHost.get(host) {
		if !seen[s.Namespace] {
			seen[s.Namespace] = true
			all = append(all, x.hosts.get(s.key()).own...)
		}
	}
	slices.SortFunc(all, compareServices)
	for _, s := range all {
		if s.countsWith(all[0]) {
			continue
		}
		problems = append(problems, Problem{Of: s.Entry.Key(), Path: "spec.hosts", Reason: fmt.Sprintf(
			"%s is also the host of %s, which counts before what the registry %s has: the mesh's own resources count first, then registries in the order "+
				"in which mcp-server was told of them. Remove the service in one of the two, or give it another host; clusters that have their services together are a set",
			host, all[0].Entry.Key(), s.Entry.Origin())})
	}
	return problems
}

// claimProblems lists the entries that claim hosts of others.
func (m *Mesh) claimProblems() (out []Problem) {
	for _, problems := range m.services.claims.each() {
		out = append(out, problems...)
	}
	return sorted(out)
}
