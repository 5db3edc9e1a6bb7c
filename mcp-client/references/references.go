// Package references finds what resources say of each other: which routes lead to a service, which gateways a route is on.
//
// It reads the resources alone, so that it can be asked about any server. Who may see what, it does not consider; a pgmesh server
// knows, and its problems tell.
package references

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// Reference is one place where a resource names another, or a host.
type Reference struct {
	From kinds.Key
	// Path is the field: "spec.http[0].route[0].destination.host".
	Path string
	// Name is what is named, in full: a host, a host and its subset, or "namespace/name".
	Name string
	// To are the resources that are meant: one, none, or several that make one host.
	To []kinds.Key
}

// Index has the references among some resources.
type Index struct {
	references []Reference
	from, to   map[kinds.Key][]int
}

// Of reads all resources.
func Of(resources []*kinds.Resource) (*Index, error) {
	b := &builder{owners: map[name][]kinds.Key{}}
	for _, r := range resources {
		if err := b.read(r); err != nil {
			return nil, err
		}
	}
	return b.index(), nil
}

// From lists what a resource refers to, in the order in which it does.
func (ix *Index) From(k kinds.Key) []Reference { return ix.list(ix.from[k]) }

// To lists where others refer to a resource.
func (ix *Index) To(k kinds.Key) []Reference { return ix.list(ix.to[k]) }

func (ix *Index) list(numbers []int) []Reference {
	var list []Reference
	for _, n := range numbers {
		list = append(list, ix.references[n])
	}
	return list
}

// name is something that can be named: a host, a subset of one ("host/subset"), or a resource of a kind ("namespace/name").
type name struct {
	kind  *kinds.Kind // nil for hosts and subsets
	value string
	wide  bool // a wildcard that has the host will do
}

type mention struct {
	from kinds.Key
	path string
	name name
}

// builder gathers who is named how, and who names whom.
type builder struct {
	owners    map[name][]kinds.Key
	wildcards []name // hosts that stand for others
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
		r := Reference{From: m.from, Path: m.path, Name: m.name.value, To: b.meant(m)}
		number := len(ix.references)
		ix.references = append(ix.references, r)
		ix.from[m.from] = append(ix.from[m.from], number)
		for _, k := range r.To {
			ix.to[k] = append(ix.to[k], number)
		}
	}
	return ix
}

// meant are the owners of a name: of exactly this one, or else, where that will do, of the longest wildcard that it is within.
func (b *builder) meant(m mention) []kinds.Key {
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
