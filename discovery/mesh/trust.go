package mesh

import (
	"slices"
	"strings"
)

// Trust is what counts beside the configuration: which identities and other meshes the authority
// trusts, and who may open ports on a router.
type Trust struct {
	// Revoked are identities that nobody has any more, without their trust domain:
	// ns/NAMESPACE/sa/SERVICE-ACCOUNT.
	Revoked []string
	// Federated are the trust domains of other meshes, whose members are admitted under their own
	// names.
	Federated []string
	// OwnGateways makes routers serve only the Gateways of their own namespace; others could open
	// ports on them.
	OwnGateways bool
}

// nobody is a name that no certificate bears. It stands for a list of names of which all were
// revoked: an empty list would let anyone serve.
const nobody = "spiffe://revoked.invalid/"

// WithTrust returns the same mesh with what is trusted now.
func (m *Mesh) WithTrust(trust Trust) *Mesh {
	now := &Trust{Revoked: sortedSet(trust.Revoked), Federated: sortedSet(trust.Federated), OwnGateways: trust.OwnGateways}
	if m.Trust().same(now) {
		return m
	}
	return build(m.from.FromItself(), m, given{keys: m.tokens.keys, trust: now, addresses: m.resolved})
}

func sortedSet(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

// Trust returns what is trusted. Two meshes return the same pointer exactly if nothing in it
// changed in between. Its lists are sorted, and must not be changed.
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

// revokes reports whether a service account was revoked.
func (t *Trust) revokes(namespace, account string) bool {
	_, found := slices.BinarySearch(t.Revoked, "ns/"+namespace+"/sa/"+account)
	return found && account != ""
}

// changedSince has the identities that only one of two states revokes.
func (t *Trust) changedSince(before *Trust) *Trust {
	missing := func(list, from []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(identity string) bool { return slices.Contains(from, identity) })
	}
	return &Trust{Revoked: sortedSet(slices.Concat(missing(t.Revoked, before.Revoked), missing(before.Revoked, t.Revoked)))}
}

// names reports whether one of these names of certificates is a revoked identity, in whatever trust
// domain.
func (t *Trust) names(list []string) bool {
	return slices.ContainsFunc(list, func(name string) bool {
		_, identity, _ := strings.Cut(strings.TrimPrefix(name, spiffeScheme), "/")
		_, found := slices.BinarySearch(t.Revoked, identity)
		return found
	})
}

// Trusted leaves revoked names out of those that a server's certificate may bear. If none is left,
// it returns a name that nobody bears.
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

// isOwnDomain reports whether a trust domain is the mesh's, by any of its names.
func (m *Mesh) isOwnDomain(domain string) bool {
	return domain == m.Config.GetTrustDomain() || slices.Contains(m.Config.GetTrustDomainAliases(), domain)
}
