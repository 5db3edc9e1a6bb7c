// Package references finds the references between resources: which routes lead to a service, which
// gateways a route is on.
//
// It needs nothing but the resources, so it works for any server. It ignores permissions; those of
// a pgmesh server show in its list of problems.
package references

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// Reference is a field of a resource that names another resource or a host.
type Reference struct {
	From kinds.Key
	// Path is the field: "spec.http[0].route[0].destination.host".
	Path string
	// Name is the full name: a host, a host and its subset, or "namespace/name".
	Name string
	// Kind is the kind that the name is of; nil for hosts and subsets.
	Kind *kinds.Kind
	// To lists the resources with that name: none, one, or several that define one host.
	To []kinds.Key
	// BuiltIn tells that what has the name is there without a resource.
	BuiltIn bool
}

// Index has the references between some resources.
type Index struct {
	references []Reference
	from, to   map[kinds.Key][]int
}

// Of indexes the references between the resources.
func Of(resources []*kinds.Resource) (*Index, error) {
	b := &builder{owners: map[name][]kinds.Key{}}
	for _, r := range resources {
		if err := b.read(r); err != nil {
			return nil, err
		}
	}
	return b.index(), nil
}

// From lists the references of a resource, in document order.
func (ix *Index) From(k kinds.Key) []Reference { return ix.list(ix.from[k]) }

// To lists the references to a resource.
func (ix *Index) To(k kinds.Key) []Reference { return ix.list(ix.to[k]) }

func (ix *Index) list(numbers []int) []Reference {
	var list []Reference
	for _, n := range numbers {
		list = append(list, ix.references[n])
	}
	return list
}

// name names a host, a subset of one ("host/subset"), or a resource of a kind ("namespace/name").
type name struct {
	kind  *kinds.Kind // nil for hosts and subsets
	value string
	wide  bool // a wildcard that covers the host also matches
}

// isBuiltIn reports whether it is the name of a class that needs no GatewayClass.
func (n name) isBuiltIn() bool {
	return n.kind != nil && n.kind.Name == "GatewayClass" && (n.value == kinds.MeshGatewayClass || n.value == kinds.IstioGatewayClass)
}

type mention struct {
	from kinds.Key
	path string
	name name
}

// builder collects which resources own which names, and all mentions of names.
type builder struct {
	owners    map[name][]kinds.Key
	wildcards []name // wildcard hosts
	mentions  []mention
}

func (b *builder) read(r *kinds.Resource) error {
	text, err := r.SpecJSON()
	if err != nil {
		return err
	}
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		return err
	}
	key := r.Key()
	b.own(key, name{kind: r.Kind, value: key.FullName()})
	(&reader{b, key}).read(spec)
	return nil
}

func (b *builder) own(k kinds.Key, n name) {
	if n.kind == nil && strings.HasPrefix(n.value, "*") && !slices.Contains(b.wildcards, n) {
		b.wildcards = append(b.wildcards, n)
	}
	if !slices.Contains(b.owners[n], k) {
		b.owners[n] = append(b.owners[n], k)
	}
}

func (b *builder) index() *Index {
	ix := &Index{from: map[kinds.Key][]int{}, to: map[kinds.Key][]int{}}
	for _, m := range b.mentions {
		r := Reference{From: m.from, Path: m.path, Name: m.name.value, Kind: m.name.kind, To: b.resolve(m), BuiltIn: m.name.isBuiltIn()}
		number := len(ix.references)
		ix.references = append(ix.references, r)
		ix.from[m.from] = append(ix.from[m.from], number)
		for _, k := range r.To {
			ix.to[k] = append(ix.to[k], number)
		}
	}
	return ix
}

// resolve returns the owners of the mentioned name. If it has none and a wildcard may match, it
// returns the owners of the longest wildcard that covers it.
func (b *builder) resolve(m mention) []kinds.Key {
	owners := b.owners[name{kind: m.name.kind, value: m.name.value}]
	if len(owners) == 0 && m.name.wide {
		var best name
		for _, w := range b.wildcards {
			if strings.HasSuffix(m.name.value, w.value[1:]) {
				best = slices.MaxFunc([]name{best, w}, func(a, b name) int { return cmp.Compare(len(a.value), len(b.value)) })
			}
		}
		owners = b.owners[best]
	}
	return slices.DeleteFunc(slices.Clone(owners), func(k kinds.Key) bool { return k == m.from })
}
