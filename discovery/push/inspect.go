package push

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Member describes a connected proxy.
type Member struct {
	Proxy *mesh.Proxy
	// Class is a short name of the proxy's class. All replicas give a class the same name, and keep
	// it for as long as the class is the same. It is "" before the first mesh.
	Class string
	// Circle is the number by which an [Audience] means the proxy; 0 until Audiences.Changed has found
	// it. It changes if the proxy comes to see another part of the mesh, or is chosen by other
	// resources.
	Circle uint32
	// OnDemand says that the proxy is given only what it asked for.
	OnDemand bool
}

// Members returns the proxy behind each subscriber.
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
		all[s] = m.described(name)
	}
	return all
}

// Member returns the proxy behind a subscriber, without the name of its class.
func (e *Engine) Member(s *served.Subscriber) (Member, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, connected := e.members[s]
	if !connected {
		return Member{}, false
	}
	return m.described(""), true
}

func (m *member) described(class string) Member {
	out := Member{Proxy: m.proxy, Class: class}
	if c := m.class; c != nil {
		out.Circle, out.OnDemand = c.circle, c.whole != nil
	}
	return out
}

// Revision returns that of the mesh which proxies are being sent, 0 before the first. While a mesh
// is pushed it waits, so that everything of this revision has been offered to the proxies.
func (e *Engine) Revision() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mesh == nil {
		return 0
	}
	return e.mesh.Revision
}

// PushNumber returns the number of the newest push, as [served.Snapshot] has it. Like Revision it waits
// for the end of one that is under way.
func (e *Engine) PushNumber() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pushes
}

// Mesh returns the one that proxies are being sent, nil before the first. Like Revision it waits for the end of a
// push.
func (e *Engine) Mesh() *mesh.Mesh {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mesh
}

// Size is how many resources the mesh has.
func (e *Engine) Size() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mesh == nil {
		return 0
	}
	return e.mesh.Size()
}

// nameOf is short: of a thousand classes, two share a name once in ten thousand meshes.
func nameOf(c classKey) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%#v", c))
	return hex.EncodeToString(sum[:4])
}

// RootNamespace returns the namespace whose resources are for the whole mesh; "" before the first
// mesh.
func (e *Engine) RootNamespace() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mesh == nil {
		return ""
	}
	return e.mesh.Config.GetRootNamespace()
}
