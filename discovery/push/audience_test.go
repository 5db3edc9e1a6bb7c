package push_test

import (
	"fmt"
	"slices"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/kinds"
)

// audiences is what somebody knows who hears only of what differs.
type audiences map[kinds.Key]push.Audience

func (a audiences) hear(news []push.Audience) {
	for _, n := range news {
		if a[n.Of] = n; !n.Everyone && len(n.Circles) == 0 {
			delete(a, n.Of)
		}
	}
}

// has reports whether a resource concerns a proxy, as far as is known.
func (a audiences) has(of kinds.Key, proxy push.Member) bool {
	return a[of].Everyone || proxy.Circle > 0 && slices.Contains(a[of].Circles, proxy.Circle)
}

// wrong says what is not as the mesh itself says it for each proxy; "" if all is.
func (a audiences) wrong(b *bench) string {
	if b.mesh == nil {
		return ""
	}
	a.hear(b.Audiences().Changed())
	anybody := map[kinds.Key]bool{}
	for _, key := range b.mesh.ConcerningAll() {
		anybody[key] = true
	}
	for _, m := range b.Members() {
		concerning := map[kinds.Key]bool{}
		for _, key := range b.mesh.Concerning(b.mesh.Configured(m.Proxy)) {
			concerning[key], anybody[key] = true, true
			if !a.has(key, m) {
				return fmt.Sprintf("%s concerns %s, and is told to concern %+v, of which %d is not", key, m.Proxy.ID, a[key], m.Circle)
			}
		}
		for key := range a {
			if !concerning[key] && a.has(key, m) {
				return fmt.Sprintf("%s does not concern %s, and is told to concern %+v, of which %d is", key, m.Proxy.ID, a[key], m.Circle)
			}
		}
	}
	for key := range a {
		if !anybody[key] {
			return fmt.Sprintf("%s concerns nobody, and is told to concern %+v", key, a[key])
		}
	}
	return ""
}
