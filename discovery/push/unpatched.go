package push

import (
	"github.com/pgmesh/pgmesh/discovery/envoyfilter"
	"github.com/pgmesh/pgmesh/kinds"
)

// unpatched is something that is not as an EnvoyFilter says. The resource is another one with each change of it.
type unpatched struct {
	from *kinds.Resource
	path string
}

// tellUnpatched has the log tell of patches that are not applied, once of each, however many proxies and resources they are for.
func (e *Engine) tellUnpatched() {
	filters := e.mesh.EnvoyFilters()
	if len(filters)+len(e.told) == 0 {
		return
	}
	standing := map[unpatched]bool{}
	first := func(u unpatched) bool {
		tell := !standing[u] && !e.told[u]
		standing[u] = true
		return tell
	}
	for _, f := range filters {
		for _, p := range f.Problems {
			if first(unpatched{f.Resource, p.Path}) {
				e.log.Warn("a patch of an EnvoyFilter is not applied as it is written", "revision", e.revision,
					"envoyfilter", f.Resource.Namespace+"/"+f.Resource.Name, "path", p.Path, "reason", p.InWords())
			}
		}
	}
	for _, c := range e.classes {
		for _, failures := range c.unpatched {
			for _, f := range failures {
				if first(unpatched{f.Patch.From, f.Path()}) {
					e.tellFailure(f)
				}
			}
		}
	}
	e.told = standing
	e.unapplied.Set(float64(len(standing)))
}

func (e *Engine) tellFailure(f *envoyfilter.Failure) {
	e.log.Warn("a patch of an EnvoyFilter is not applied where Envoy would refuse what it makes; everything else is", "revision", e.revision,
		"envoyfilter", f.Patch.From.Namespace+"/"+f.Patch.From.Name, "path", f.Path(), "resource", f.Resource, "reason", f.Reason)
}
