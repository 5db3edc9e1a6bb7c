package mesh

import "sync"

// memory is what meshes that follow each other remember of what proxies asked for: the latest scope, frontend and rules about tokens of each sort. Whichever of
// the meshes was asked last, the next takes over from it what is still so.
type memory struct {
	mu        sync.Mutex
	builds    int // meshes that there have been
	scopes    latest[scopeKey, rememberedScope]
	frontends latest[string, *Frontend]
	tokens    latest[string, *TokenRules]
}

// rememberedScope is a scope with the mesh that was asked for it last: its catalog, and its build.
type rememberedScope struct {
	scope *Scope
	of    catalog
	asked int
}

// forgottenAfter is how many meshes may pass without a question before an answer is forgotten.
const forgottenAfter = 64

func newMemory() *memory { return &memory{} }

// next counts a mesh, and now and then forgets what nobody asks for any more.
func (x *memory) next() (build int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.builds++
	if x.builds%forgottenAfter == 0 {
		since := x.builds - forgottenAfter
		x.scopes.forget(since)
		x.frontends.forget(since)
		x.tokens.forget(since)
	}
	return x.builds
}

// latest is the newest that was asked for of each sort.
type latest[K comparable, V any] struct {
	mu   sync.Mutex
	made map[K]remembered[V]
}

type remembered[V any] struct {
	value V
	build int // of the mesh that was asked
}

// get is what was kept last, the zero value if nothing was.
func (l *latest[K, V]) get(key K) V {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made[key].value
}

// keep takes in what a mesh was asked for, unless a newer one was asked meanwhile.
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

// forget drops what was not asked for since a mesh.
func (l *latest[K, V]) forget(since int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, r := range l.made {
		if r.build < since {
			delete(l.made, key)
		}
	}
}

// once makes a value of a mesh when the first asks, and lets others wait for it.
type once[K comparable, V any] struct {
	mu    sync.Mutex
	cells map[K]func() V
}

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
