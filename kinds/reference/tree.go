package reference

import (
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
)

// Each visits the fields of a spec, as a JSON tree, that name something, in document order.
func Each(k *kinds.Kind, spec any, visit func(path string, n *Named, value any)) {
	below(Places(k), "spec", spec, visit)
}

func below(places []*Place, path string, value any, visit func(path string, n *Named, value any)) {
	object, _ := value.(map[string]any)
	for _, p := range places {
		member, at := object[p.Field], schema.Member(path, p.Field)
		items, _ := member.([]any)
		values, _ := member.(map[string]any)
		switch {
		case member == nil:
		case p.Repeated:
			for i, item := range items {
				p.visit(schema.Item(at, i), item, visit)
			}
		case p.Map:
			for _, key := range slices.Sorted(maps.Keys(values)) {
				p.visit(schema.Member(at, key), values[key], visit)
			}
		default:
			p.visit(at, member, visit)
		}
	}
}

func (p *Place) visit(path string, value any, visit func(path string, n *Named, value any)) {
	if p.Named != nil {
		visit(path, p.Named, value)
	}
	below(p.Below, path, value, visit)
}
