package push

import (
	"slices"
	"sync"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// Audience says which of the connected proxies a resource concerns, as in [mesh.Mesh.Concerning].
type Audience struct {
	Of kinds.Key
	// Everyone stands for every proxy, and for those that come with another circle too.
	Everyone bool
	// Circles are the numbers of the circles whose proxies it concerns, in order, unless it is
	// everyone. If there are none either, it concerns nobody.
	Circles []uint32
}

func (a *Audience) same(other *Audience) bool {
	return a.Everyone == other.Everyone && slices.Equal(a.Circles, other.Circles)
}

// Audiences knows whom each resource concerns, and what was told of it. An engine has one, for one
// reporter.
//
// It counts how often each scope shows each resource (mesh.ScopeCount), and which resources choose the
// proxies of each circle. When it is asked, it follows what has changed since, and tells of the
// resources for which the answer is another one. Nothing of it is done while proxies wait, but for
// remembering how scopes changed.
type Audiences struct {
	engine *Engine

	mu        sync.Mutex
	turn      uint64
	mesh      *mesh.Mesh
	scopes    map[mesh.ScopeName]*countedScope
	free      []int // indexes of scopes that are not used any more
	classes   map[*class]*knownClass
	circles   map[circleKey]*circle
	numbers   uint32    // how many circles there were
	sorted    []*circle // by number
	resources map[kinds.Key]*concern
	toAll     map[kinds.Key]bool // what concerns everyone
	doubtful  map[*concern]bool  // those whose audience may differ from what was told
}

// Audiences returns the one of the engine.
func (e *Engine) Audiences() *Audiences { return e.audiences }

func newAudiences(e *Engine) *Audiences {
	return &Audiences{
		engine: e, scopes: map[mesh.ScopeName]*countedScope{}, classes: map[*class]*knownClass{}, circles: map[circleKey]*circle{},
		resources: map[kinds.Key]*concern{}, toAll: map[kinds.Key]bool{}, doubtful: map[*concern]bool{},
	}
}

// Reset makes the next call of Changed tell of all resources that concern anybody.
func (a *Audiences) Reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.resources {
		c.told = Audience{}
		a.doubtful[c] = true
	}
}

// Changed returns the audiences that differ from what an earlier call has returned, sorted by
// resource. It gives proxies their [Member.Circle], so ask for those afterwards.
func (a *Audiences) Changed() []Audience {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now, news := a.engine.classList(a.turn, a.classes); news {
		a.turn = now.turn
		a.follow(now)
	}
	var out []Audience
	for c := range a.doubtful {
		now := c.audience(a.sorted)
		if !now.same(&c.told) {
			out = append(out, now)
		}
		if c.told = now; c.unknown() {
			delete(a.resources, c.of)
		}
	}
	clear(a.doubtful)
	slices.SortFunc(out, func(a, b Audience) int { return mesh.CompareKeys(a.Of, b.Of) })
	return out
}

// follow goes on to what the engine has now.
func (a *Audiences) follow(now *classList) {
	known := mesh.NewDifferences()
	at := map[*mesh.Scope]*countedScope{}
	for _, c := range now.classes {
		if at[c.scope] == nil {
			at[c.scope] = a.countedScopeOf(c.scope)
		}
		at[c.scope].used = true
	}
	for scope, s := range at {
		s.follow(now, scope, known, a)
	}
	a.gather(now, at)
	a.dropScopes()
	a.concernAll(now.mesh)
	a.mesh = now.mesh
}

// concernAll notes what concerns everyone.
func (a *Audiences) concernAll(m *mesh.Mesh) {
	now := map[kinds.Key]bool{}
	for _, key := range m.ConcerningAll() {
		now[key] = true
		a.concern(key).all = true
	}
	for key := range a.toAll {
		a.doubt(a.concern(key))
		a.concern(key).all = now[key]
	}
	for key := range now {
		if !a.toAll[key] {
			a.doubt(a.concern(key))
		}
	}
	a.toAll = now
}

func (a *Audiences) doubt(c *concern) { a.doubtful[c] = true }
