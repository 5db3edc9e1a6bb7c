package mesh

import (
	"maps"
	"slices"
	"strings"
)

const spiffeScheme = "spiffe://"

// Identities are the names that the certificates of a service's workloads may bear: those of their
// service accounts, under each name of the trust domain, and those that its ServiceEntries list;
// without revoked ones. If there are none, anyone may serve it.
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

// addAliases adds an identity of the mesh's own under all trust domains that stand for the mesh: one
// that is written with a former domain is that of whoever has it today. It does not do so for an identity of another mesh: here, that name would be somebody
// else's.
func (m *Mesh) addAliases(names map[string]bool, name string) {
	rest, ok := strings.CutPrefix(name, spiffeScheme)
	domain, path, found := strings.Cut(rest, "/")
	if !ok || !found || !m.isOwnDomain(domain) {
		return
	}
	for _, domain := range append([]string{m.Config.GetTrustDomain()}, m.Config.GetTrustDomainAliases()...) {
		names[spiffeScheme+domain+"/"+path] = true
	}
}
