package gatewayapi

import (
	"iter"
	"slices"

	"github.com/pgmesh/pgmesh/kinds"
)

// Grants says who may name what in other namespaces.
type Grants struct {
	byNamespace map[string][]grant
}

type grant struct {
	from []source
	to   []target // without a namespace; without a name it is any
}

type source struct{ group, kind, namespace string }

// ReadGrants reads the ReferenceGrants.
func ReadGrants(resources iter.Seq[*kinds.Resource]) *Grants {
	all := &Grants{byNamespace: map[string][]grant{}}
	for r := range resources {
		spec, err := specOf[grantSpec](r)
		if err != nil {
			continue // it grants nothing, which who is not granted it is told
		}
		var g grant
		for _, from := range spec.From {
			g.from = append(g.from, source{from.Group, from.Kind, from.Namespace})
		}
		for _, to := range spec.To {
			g.to = append(g.to, target{group: to.Group, kind: to.Kind, name: or(to.Name, "")})
		}
		all.byNamespace[r.Namespace] = append(all.byNamespace[r.Namespace], g)
	}
	return all
}

// allow reports whether a resource may name what it names. In its own namespace it may.
func (g *Grants) allow(from *kinds.Resource, to target) bool {
	if to.namespace == from.Namespace {
		return true
	}
	by := source{from.Kind.Group, from.Kind.Name, from.Namespace}
	return slices.ContainsFunc(g.byNamespace[to.namespace], func(one grant) bool {
		return slices.Contains(one.from, by) && slices.ContainsFunc(one.to, func(granted target) bool {
			return granted.is(to.group, to.kind) && (granted.name == "" || granted.name == to.name)
		})
	})
}
