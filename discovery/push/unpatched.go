package push

import (
	"cmp"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// patch is the place where a patch is written.
type patch struct {
	from kinds.Key
	path string
}

// unpatched lists the patches that are not applied as written: those that cannot be read, and those
// whose result Envoy would refuse. It lists each once, with one reason, however many proxies and
// resources have it.
func unpatched(m *mesh.Mesh, classes map[classKey]*class) (out []Problem) {
	for _, f := range m.EnvoyFilters() {
		for _, p := range f.Problems {
			out = append(out, Problem{Code: PatchUnapplied, Problem: mesh.Problem{Of: f.Resource.Key(), Path: p.Path, Reason: p.InWords()}})
		}
	}
	failed := map[patch]Problem{}
	for _, c := range classes {
		for failures := range c.failures() {
			for _, f := range failures {
				p := Problem{Code: PatchUnapplied, At: f.Resource, Problem: mesh.Problem{Of: f.Patch.From.Key(), Path: f.Path(), Reason: f.Reason}}
				first, known := failed[patch{p.Of, p.Path}]
				if !known || cmp.Or(cmp.Compare(p.Reason, first.Reason), cmp.Compare(p.At, first.At)) < 0 {
					failed[patch{p.Of, p.Path}] = p
				}
			}
		}
	}
	for _, p := range failed {
		out = append(out, p)
	}
	return out
}
