package push

import (
	"slices"
	"sync"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// Version says which version of a registry's resource the mesh has, and since which push. It is
// empty if no registry has the resource any more.
type Version struct {
	Of      kinds.Key
	Version string
	Push    uint64
}

// Versions knows which versions of registries' resources the mesh has, and what was told of them. A
// change in a registry is no revision, so these tell who runs it. Resources of the database cost
// nothing here.
type Versions struct {
	mu     sync.Mutex
	known  map[kinds.Key]Version
	untold map[kinds.Key]bool
	urgent bool // some of those are configuration, whose authors wait for it
}

// Versions returns those of the engine.
func (e *Engine) Versions() *Versions { return e.versions }

func newVersions() *Versions {
	return &Versions{known: map[kinds.Key]Version{}, untold: map[kinds.Key]bool{}}
}

// note notes what a step changes of registries' resources, and reports whether configuration is
// among it.
func (v *Versions) note(step configstore.Step, push uint64) (configured bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, kind := range kinds.All() {
		for _, edit := range step.Edits(kind) {
			if edited := v.edit(edit, push); edited != nil && !edited.IsService() {
				configured = true
			}
		}
	}
	v.urgent = v.urgent || configured
	return configured
}

// edit notes an edit, and returns the resource if it is or was a registry's.
func (v *Versions) edit(e configstore.Edit, push uint64) *kinds.Resource {
	switch {
	case e.After != nil && e.After.Version != "":
		v.set(Version{e.After.Key(), e.After.Version, push})
		return e.After
	case e.Before != nil && e.Before.Version != "":
		v.set(Version{Of: e.Before.Key(), Push: push})
		return e.Before
	}
	return nil
}

func (v *Versions) set(to Version) {
	v.known[to.Of], v.untold[to.Of] = to, true
}

// Any reports whether the mesh has resources of registries, or something is to be told of them.
func (v *Versions) Any() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.known) > 0
}

// Reset makes the next call of Changed tell of all versions.
func (v *Versions) Reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for of := range v.known {
		v.untold[of] = true
	}
	v.urgent = len(v.untold) > 0
}

// Urgent reports whether versions of configuration are to be told. Those of services, of which a
// registry may change many each second, can wait.
func (v *Versions) Urgent() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.urgent
}

// Changed returns the versions that differ from what an earlier call has returned, sorted by
// resource.
func (v *Versions) Changed() []Version {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make([]Version, 0, len(v.untold))
	for of := range v.untold {
		now := v.known[of]
		out = append(out, now)
		if now.Version == "" {
			delete(v.known, of)
		}
	}
	clear(v.untold)
	v.urgent = false
	slices.SortFunc(out, func(a, b Version) int { return mesh.CompareKeys(a.Of, b.Of) })
	return out
}
