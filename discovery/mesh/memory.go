package mesh

import "sync"

// memory is what meshes that follow each other remember of what proxies asked for: the latest scope, frontend and rules about tokens of each sort. Whichever of
// the meshes was asked last, the next takes over from it what is still so.
type memory struct {
	mu        sync.Mutex
	builds    int // meshes that there have been
	scopes    map[scopeKey]rememberedScope
	frontends map[string]rememberedFrontend
	tokens    map[string]rememberedTokens
}

type rememberedScope struct {
	scope *Scope
	of    catalog
	build int // of the mesh that was asked
}

type rememberedFrontend struct {
	frontend *Frontend
	build    int
}

type rememberedTokens struct {
	rules *TokenRules
	build int
}

// attention is for how many meshes something is remembered that nobody asks for.
const attention = 64

func newMemory() *memory {
	return &memory{scopes: map[scopeKey]rememberedScope{}, frontends: map[string]rememberedFrontend{}, tokens: map[string]rememberedTokens{}}
}

// next counts a mesh, and now and then forgets what nobody asks for any more.
func (x *memory) next() (build int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.builds++
	if x.builds%attention == 0 {
		for key, s := range x.scopes {
			if s.build < x.builds-attention {
				delete(x.scopes, key)
			}
		}
		for key, f := range x.frontends {
			if f.build < x.builds-attention {
				delete(x.frontends, key)
			}
		}
		for key, t := range x.tokens {
			if t.build < x.builds-attention {
				delete(x.tokens, key)
			}
		}
	}
	return x.builds
}

func (x *memory) scope(key scopeKey) rememberedScope {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.scopes[key]
}

func (x *memory) keepScope(key scopeKey, s rememberedScope) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.scopes[key].build <= s.build {
		x.scopes[key] = s
	}
}

func (x *memory) frontend(key string) *Frontend {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.frontends[key].frontend
}

func (x *memory) keepFrontend(key string, f rememberedFrontend) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.frontends[key].build <= f.build {
		x.frontends[key] = f
	}
}

func (x *memory) tokenRules(key string) *TokenRules {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tokens[key].rules
}

func (x *memory) keepTokenRules(key string, t rememberedTokens) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.tokens[key].build <= t.build {
		x.tokens[key] = t
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
