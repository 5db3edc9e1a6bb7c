package mesh

import (
	"maps"
	"slices"
	"sync"
)

// step says what changed between a mesh and the one before it.
type step struct {
	follows  int  // the build of the mesh before
	config   bool // the configuration of the mesh changed
	sorting  bool // a kind was edited that decides about classes
	services Exchange[*Service]
	virtual  Exchange[*VirtualService] // those for sidecars
	rules    []hostAt                  // hosts whose DestinationRules, or whose BackendTLSPolicies, changed
}

// stepsRemembered is for how many steps back a mesh knows what changed. A scope that no proxy asked
// for during more steps is built from nothing.
const stepsRemembered = 8

// after returns the latest steps, with this one as the last.
func (s *step) after(earlier []*step) []*step {
	if len(earlier) == stepsRemembered {
		earlier = earlier[1:]
	}
	return append(slices.Clip(earlier), s)
}

// changes are what differs between an earlier mesh and a later one.
type changes struct {
	step

	// Lists that scopes shared before the changes are shared after them, too.
	serviceLists patches[*Service]
	virtualLists patches[*VirtualService]

	addresses func() map[string]bool // addresses that serve other services than before; found when first asked for
}

// newChanges returns the changes that a step makes.
func newChanges(s step) *changes {
	return &changes{step: s, addresses: sync.OnceValue(func() map[string]bool {
		at := map[string]bool{}
		for _, services := range [][]*Service{s.services.Gone, s.services.Come} {
			for _, service := range services {
				for _, e := range service.Endpoints {
					at[e.Address] = true
				}
			}
		}
		return at
	})}
}

// changesSince returns what changed since an earlier build, or nil if the mesh does not remember
// that far back. All scopes share the answer.
func (m *Mesh) changesSince(build int) *changes {
	return m.changes.get(build, func() *changes {
		if build == m.build {
			return newChanges(step{})
		}
		for i, s := range slices.Backward(m.recent) {
			if s.follows == build {
				return newChanges(composed(m.recent[i:]))
			}
		}
		return nil
	})
}

// composed joins consecutive steps into one.
func composed(steps []*step) step {
	out := *steps[0]
	if len(steps) == 1 {
		return out
	}
	services, virtual := newJoin(out.services), newJoin(out.virtual)
	for _, s := range steps[1:] {
		out.config, out.sorting = out.config || s.config, out.sorting || s.sorting
		services.add(s.services)
		virtual.add(s.virtual)
		out.rules = slices.Concat(out.rules, s.rules) // a host may be listed twice, which does no harm
	}
	out.services, out.virtual = services.done(), virtual.done()
	return out
}

// join collects exchanges of one list. What came and went again leaves no trace.
type join[T comparable] struct{ gone, come map[T]bool }

func newJoin[T comparable](first Exchange[T]) *join[T] {
	j := &join[T]{gone: map[T]bool{}, come: map[T]bool{}}
	j.add(first)
	return j
}

// add appends the exchange of a later step.
func (j *join[T]) add(x Exchange[T]) {
	for _, v := range x.Gone {
		if j.come[v] {
			delete(j.come, v)
		} else {
			j.gone[v] = true
		}
	}
	for _, v := range x.Come {
		if j.gone[v] {
			delete(j.gone, v)
		} else {
			j.come[v] = true
		}
	}
}

func (j *join[T]) done() Exchange[T] {
	return Exchange[T]{slices.Collect(maps.Keys(j.gone)), slices.Collect(maps.Keys(j.come))}
}

// many reports whether it costs less to build a scope from nothing than to patch it.
func (c *changes) many() bool {
	return len(c.services.Gone)+len(c.services.Come)+len(c.virtual.Gone)+len(c.virtual.Come)+len(c.rules) > 500
}

// resorted reports whether something was edited since an earlier mesh that decides about classes.
func (m *Mesh) resorted(before *Mesh) bool {
	c := m.changesSince(before.build)
	return c == nil || c.sorting
}
