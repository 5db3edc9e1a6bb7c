package mesh

import "sync"

// memory holds what a series of meshes remembers of what proxies asked for: the latest scope,
// frontend, token rules and rules of a Gateway of each key. Whichever mesh was asked last, the next one
// takes over what still holds.
type memory struct {
	mu        sync.Mutex
	builds    int // how many meshes there were
	scopes    latest[scopeKey, rememberedScope]
	frontends latest[string, *Frontend]
	tokens    latest[string, *TokenRules] // by the policies for a proxy
	bound     latest[boundTo, boundRules]
}

// rememberedScope is a scope with the catalog and the build of the mesh that was asked for it last.
type rememberedScope struct {
	scope *Scope
	of    catalog
	asked int
}

// forgottenAfter is for how many meshes an answer is kept that nobody asks for.
const forgottenAfter = 64

func newMemory() *memory { return &memory{} }

// next counts a mesh, and from time to time forgets what nobody asks for any more.
func (x *memory) next() (build int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.builds++
	if x.builds%forgottenAfter == 0 {
		since := x.builds - forgottenAfter
		x.scopes.forget(since)
		x.frontends.forget(since)
		x.tokens.forget(since)
		x.bound.forget(since)
	}
	return x.builds
}

// latest has the newest answer for each key.
type latest[K comparable, V any] struct {
	mu   sync.Mutex
	made map[K]remembered[V]
}

type remembered[V any] struct {
	value V
	build int // of the mesh that was asked
}

// get returns what was kept last, or the zero value.
func (l *latest[K, V]) get(key K) V {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made[key].value
}

// keep stores the answer of a mesh, unless a newer mesh gave one meanwhile.
func (l *latest[K, V]) keep(key K, value V, build int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made[key].build > build {
		return
	}
	if l.made == nil {
		l.made = map[K]remembered[V]{}
	}
	l.made[key] = remembered[V]{value, build}
}

// forget drops what no mesh since a given build was asked for.
func (l *latest[K, V]) forget(since int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, r := range l.made {
		if r.build < since {
			delete(l.made, key)
		}
	}
}

// once makes a value when it is first asked for. Others that ask meanwhile wait for it.
type once[K comparable, V any] struct {
	mu    sync.Mutex
	cells map[K]func() V
}

// get returns the value for a key, which build makes at the first call.
func (o *once[K, V]) get(key K, build func() V) V {
	o.mu.Lock()
	cell := o.cells[key]
	if cell == nil {
		cell = sync.OnceValue(build)
		if o.cells == nil {
			o.cells = map[K]func() V{}
		}
		o.cells[key] = cell
	}
	o.mu.Unlock()
	return cell()
}
