package push

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Member is a connected proxy as the engine has it.
type Member struct {
	Proxy *mesh.Proxy
	// Class is a short name of what proxies have in common that get the same: the same for as long as that is, at every replica. It is
	// "" while there is no mesh.
	Class string
	// OnDemand says that it is given a part of what its class has: what it has asked for.
	OnDemand bool
}

// Members tells who is at the other end of each subscriber's stream.
func (e *Engine) Members() map[*served.Subscriber]Member {
	e.mu.Lock()
	defer e.mu.Unlock()
	all, names := make(map[*served.Subscriber]Member, len(e.members)), map[classKey]string{}
	for s, m := range e.members {
		name, known := names[m.key]
		if !known && m.class != nil {
			name = nameOf(m.key)
			names[m.key] = name
		}
		all[s] = Member{Proxy: m.proxy, Class: name, OnDemand: m.class != nil && m.class.whole != nil}
	}
	return all
}

// nameOf is short: among a thousand classes two have one name once in ten thousand meshes.
func nameOf(c classKey) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%#v", c))
	return hex.EncodeToString(sum[:4])
}
