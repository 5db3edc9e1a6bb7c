package registries

import (
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
)

// Trail tells whoever keeps a copy of a registry which of its resources have changed. It remembers
// their keys alone, so it does not grow when one changes often.
type Trail struct {
	of      *origin
	moved   chan struct{}          // has an element if something has changed
	changed map[kinds.Key]struct{} // of.mu guards it; nil while nobody keeps a copy
}

// Trails returns a trail for each registry, in their order. Call it once, before Run.
func (all *Registries) Trails() []*Trail {
	out := make([]*Trail, len(all.origins))
	for i, o := range all.origins {
		out[i] = &Trail{of: o, moved: make(chan struct{}, 1)}
		o.trail = out[i]
	}
	return out
}

// Name is the name of the registry.
func (t *Trail) Name() string { return t.of.registry.Name() }

// Moved has an element when the registry, or how it is, has changed.
func (t *Trail) Moved() <-chan struct{} { return t.moved }

// Status describes the registry.
func (t *Trail) Status() Status { return t.of.status() }

// Begin has the trail tell everything that the registry has, and then what changes.
func (t *Trail) Begin() {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.changed = make(map[kinds.Key]struct{}, len(t.of.has))
	for key := range t.of.has {
		t.changed[key] = struct{}{}
	}
}

// End has it remember nothing until it begins again.
func (t *Trail) End() {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.changed = nil
}

// Has says that the copy has a resource of a version already: it has not changed if the registry has
// the same, and is gone if that has none.
func (t *Trail) Has(key kinds.Key, version string) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if found := t.of.has[key].served; found != nil && found.Version == version {
		delete(t.changed, key)
	} else if t.changed != nil {
		t.changed[key] = struct{}{}
	}
}

// Change is a resource of a registry as it is now; without one it is gone.
type Change struct {
	Key      kinds.Key
	Resource *served.Resource
}

// Take returns changes and forgets them, up to a number and a size. It reports whether there are more.
func (t *Trail) Take(most, bytes int) (changes []Change, more bool) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	for key := range t.changed {
		if len(changes) == most || bytes <= 0 {
			return changes, true
		}
		now := t.of.has[key].served
		if now != nil {
			bytes -= now.Size()
		}
		changes = append(changes, Change{key, now})
		delete(t.changed, key)
	}
	return changes, false
}

// move notes that a resource has changed. The origin's mutex is held.
func (t *Trail) move(key kinds.Key) {
	if t == nil {
		return
	}
	if t.changed != nil {
		t.changed[key] = struct{}{}
	}
	t.stir()
}

// stir tells that how the registry is has changed.
func (t *Trail) stir() {
	if t == nil {
		return
	}
	select {
	case t.moved <- struct{}{}:
	default:
	}
}
