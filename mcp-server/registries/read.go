package registries

import (
	"slices"

	"github.com/pgmesh/pgmesh/kinds"
)

// Get returns a resource that a registry has, as it is served if the source has none of its name;
// nil if no registry has it.
func (all *Registries) Get(key kinds.Key) (*kinds.Resource, error) {
	for _, o := range all.origins {
		if found := o.get(key); found != nil {
			return kinds.FromAny(key.Kind, key.FullName(), found.Body)
		}
	}
	return nil, nil
}

// Keys returns what is served of registries, as far as somebody wants it, in the order of kinds,
// namespaces and names.
func (all *Registries) Keys(wanted func(kinds.Key) bool) []kinds.Key {
	var keys []kinds.Key
	for _, o := range all.origins {
		keys = append(keys, o.keys(wanted)...)
	}
	slices.SortFunc(keys, kinds.Key.Compare)
	keys = slices.Compact(keys)
	return slices.DeleteFunc(keys, func(k kinds.Key) bool { return all.publisher.IsOwn(k.Kind, k.FullName()) })
}
