package mesh

import (
	"slices"
	"strings"
)

// Trust is what counts beside the configuration: what the authority says of those whom it has given certificates, of other meshes, and of who
// may open ports on a router.
type Trust struct {
	// Revoked are identities that are nobody's any more, without their trust domain: ns/NAMESPACE/sa/SERVICE-ACCOUNT.
	Revoked []string
	// Federated are the trust domains of other meshes, whose members are let in by their own names.
	Federated []string
	// OwnGateways has routers serve the Gateways of their own namespace alone: others could open ports on them.
	OwnGateways bool
}

// nobody is a name that no certificate bears. It stands where names have to be, and all of them were revoked: without a name, anybody would do.
const nobody = "spiffe://revoked.invalid/"

// WithTrust is the same mesh with what is trusted now.
func (m *Mesh) WithTrust(trust Trust) *Mesh {
	now := &Trust{Revoked: sortedSet(trust.Revoked), Federated: sortedSet(trust.Federated), OwnGateways: trust.OwnGateways}
	if m.Trust().same(now) {
		return m
	}
	return build(m.from.FromItself(), m, given{keys: m.tokens.keys, trust: now})
}

func sortedSet(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

// Trust is the same one in two meshes exactly when nothing of it changed between the two. Its lists are sorted, and must not be changed.
func (m *Mesh) Trust() *Trust {
	if m.trust == nil {
		return noTrust
	}
	return m.trust
}

var noTrust = &Trust{}

func (t *Trust) same(other *Trust) bool {
	return slices.Equal(t.Revoked, other.Revoked) && slices.Equal(t.Federated, other.Federated) && t.OwnGateways == other.OwnGateways
}

// revokes tells whether a service account is nobody's any more.
func (t *Trust) revokes(namespace, account string) bool {
	_, found := slices.BinarySearch(t.Revoked, "ns/"+namespace+"/sa/"+account)
	return found && account != ""
}

// changedSince are the identities that are revoked in one of two states alone.
func (t *Trust) changedSince(before *Trust) *Trust {
	missing := func(list, from []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(identity string) bool { return slices.Contains(from, identity) })
	}
	return &Trust{Revoked: sortedSet(slices.Concat(missing(t.Revoked, before.Revoked), missing(before.Revoked, t.Revoked)))}
}

// names tells whether one of some names that certificates may bear is a revoked identity, in whatever trust domain.
func (t *Trust) names(list []string) bool {
	return slices.ContainsFunc(list, func(name string) bool {
		_, identity, _ := strings.Cut(strings.TrimPrefix(name, spiffeScheme), "/")
		_, found := slices.BinarySearch(t.Revoked, identity)
		return found
	})
}

// Trusted leaves out of the names that a server's certificate may bear those that were revoked. If that leaves none, it is a name that
// nobody bears.
func (m *Mesh) Trusted(names []string) []string {
	trust := m.Trust()
	if !trust.names(names) {
		return names
	}
	out := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		rest, isIdentity := strings.CutPrefix(name, spiffeScheme)
		domain, _, _ := strings.Cut(rest, "/")
		return isIdentity && m.isOwnDomain(domain) && trust.names([]string{name})
	})
	if len(out) == 0 {
		return []string{nobody}
	}
	return out
}

// isOwnDomain tells whether a trust domain is the mesh's, by any of its names.
func (m *Mesh) isOwnDomain(domain string) bool {
	return domain == m.Config.GetTrustDomain() || slices.Contains(m.Config.GetTrustDomainAliases(), domain)
}
