package mesh

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/kinds"
)

// Authorities are those that resources of the Gateway API name, in the order of their names. They are
// public, so every proxy may have them. The list never changes; a step makes another one.
type Authorities struct{ List []gatewayapi.Authority }

// Authorities returns those of a mesh; nil if there are none.
func (m *Mesh) Authorities() *Authorities {
	if m.api == nil {
		return nil
	}
	return m.api.authorities
}

// noteAuthorities keeps the authorities that a resource names, which may be gone.
func (u *apiUpdate) noteAuthorities(of kinds.Key, now []gatewayapi.Authority) {
	before := u.trusted.get(of)
	if len(before)+len(now) == 0 || slices.EqualFunc(before, now, sameAuthority) {
		return
	}
	trusted := u.trusted.edit()
	trusted.put(of, now, len(now) == 0)
	u.trusted, u.authorities = trusted.done(), nil
}

func sameAuthority(a, b gatewayapi.Authority) bool {
	return a.Name == b.Name && slices.Equal(a.Trust.Authorities, b.Trust.Authorities) && slices.Equal(a.Trust.Revoked, b.Trust.Revoked)
}

// listAuthorities lists them anew if they have changed.
func (u *apiUpdate) listAuthorities() {
	if u.authorities != nil || u.trusted.size == 0 {
		return
	}
	u.authorities = &Authorities{}
	for _, some := range u.trusted.each() {
		u.authorities.List = append(u.authorities.List, some...)
	}
	slices.SortFunc(u.authorities.List, func(a, b gatewayapi.Authority) int { return cmp.Compare(a.Name, b.Name) })
}

// authorityBehind is the resource that names the authorities for which a proxy asks by a name; false if
// it is no name of such.
func authorityBehind(resource string) (kinds.Key, bool) {
	path, found := strings.CutPrefix(resource, gatewayapi.AuthorityPrefix)
	parts := strings.SplitN(strings.TrimSuffix(path, kinds.AuthoritySuffix), "/", 4)
	if !found || len(parts) < 3 {
		return kinds.Key{}, false
	}
	for _, kind := range []*kinds.Kind{gatewayapi.KindBackendTLS, gatewayapi.KindGateway} {
		if kind.Name == parts[0] {
			return kinds.Key{Kind: kind, Namespace: parts[1], Name: parts[2]}, true
		}
	}
	return kinds.Key{}, false
}
