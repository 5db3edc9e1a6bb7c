package reference

import (
	"slices"
	"sync"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
)

// Place is a field on the path to names, or a field that is one. Paths with a common beginning
// share it, so a walk of a spec visits each list once and finds all names of an item together.
type Place struct {
	Field    string
	Repeated bool   // a list
	Map      bool   // the values have the places below
	Named    *Named // nil if the field only leads to names
	Below    []*Place
}

var places = sync.OnceValue(func() map[*kinds.Kind][]*Place {
	all := map[*kinds.Kind][]*Place{}
	for _, k := range kinds.All() {
		if root, ok := schema.Root(k.Group, k.Name); ok {
			top := &Place{}
			for _, n := range Of(k) {
				top.add(root, n, n.Steps())
			}
			all[k] = top.Below
		}
	}
	return all
})

// Places returns the places of a kind.
func Places(k *kinds.Kind) []*Place { return places()[k] }

func (p *Place) add(of *schema.Type, n *Named, steps []string) {
	if len(steps) == 0 {
		p.Named = n
		return
	}
	i := slices.IndexFunc(p.Below, func(b *Place) bool { return b.Field == steps[0] })
	if i < 0 {
		f := field(of, steps[0])
		i, p.Below = len(p.Below), append(p.Below, &Place{Field: f.Name, Repeated: f.Repeated, Map: f.Map})
	}
	p.Below[i].add(schema.Types()[field(of, steps[0]).TypeRef], n, steps[1:])
}

func field(of *schema.Type, name string) schema.Field {
	for _, f := range of.Fields {
		if f.Name == name {
			return f
		}
	}
	panic("kinds/reference/references.yaml: " + of.Name + " has no field " + name) // a test reads it
}
