package authorization

import (
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// ownDomain stands in policies for the mesh's trust domain, whatever that is.
const ownDomain = "cluster.local"

// domainsOf are the mesh's trust domain and its other names.
func domainsOf(config *meshconfig.MeshConfig) []string {
	return append([]string{config.GetTrustDomain()}, config.GetTrustDomainAliases()...)
}

// inAllDomains adds identities of the mesh's own trust domain as they read in its other names.
func (r reading) inAllDomains(list []string) (out []string) {
	add := func(identity string) {
		if !slices.Contains(out, identity) {
			out = append(out, identity)
		}
	}
	for _, identity := range list {
		domain, rest, _ := strings.Cut(identity, "/")
		if strings.Count(rest, "/") != 3 || domain == "*" || !r.isOwn(domain) {
			add(identity)
			continue
		}
		for _, own := range r.domains {
			if end, isEnd := strings.CutPrefix(domain, "*"); isEnd && strings.HasSuffix(own, end) {
				add(identity)
			} else {
				add(own + "/" + rest)
			}
		}
	}
	return out
}

// isOwn tells whether the trust domain in an identity, which may begin or end with "*", is one of
// the mesh's.
func (r reading) isOwn(domain string) bool {
	return domain == ownDomain || slices.ContainsFunc(r.domains, func(own string) bool {
		end, isEnd := strings.CutPrefix(domain, "*")
		begin, isBegin := strings.CutSuffix(domain, "*")
		return domain == own || isEnd && strings.HasSuffix(own, end) || isBegin && strings.HasPrefix(own, begin)
	})
}

// withAllNames adds its other names to a trust domain of the mesh.
func (r reading) withAllNames(list []string) (out []string) {
	for _, domain := range list {
		names := []string{domain}
		if slices.Contains(r.domains, domain) {
			names = r.domains
		}
		for _, name := range names {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}
