package mesh

import (
	"maps"
	"slices"
	"strings"
)

const spiffeScheme = "spiffe://"

// Identities are the names that certificates of a service's workloads bear: those of their service accounts, under each name of the
// trust domain, and what its ServiceEntries list, without those that were revoked. None: anyone may serve it.
func (m *Mesh) Identities(s *Service) []string {
	names := map[string]bool{}
	for _, name := range s.names {
		names[name] = true
	}
	for _, e := range s.Endpoints {
		if e.ServiceAccount != "" {
			names[spiffeScheme+m.Config.GetTrustDomain()+"/ns/"+e.Namespace+"/sa/"+e.ServiceAccount] = true
		}
	}
	for _, name := range slices.Collect(maps.Keys(names)) {
		m.addAliases(names, name)
	}
	return m.Trusted(slices.Sorted(maps.Keys(names)))
}

// addAliases adds an identity of the mesh's own as it reads in the other trust domains that stand for the mesh. One of another mesh is nobody
// else's: whoever has that name here is somebody else.
func (m *Mesh) addAliases(names map[string]bool, name string) {
	rest, ok := strings.CutPrefix(name, spiffeScheme)
	domain, path, found := strings.Cut(rest, "/")
	if !ok || !found || !m.isOwnDomain(domain) {
		return
	}
	for _, domain := range m.Config.GetTrustDomainAliases() {
		names[spiffeScheme+domain+"/"+path] = true
	}
}
