package envoyfilter

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// in says where in a list a patch applies.
type in[T any] struct {
	named   bool         // the patch names an item
	is      func(T) bool // reports whether an item is the named one
	addedAt func([]T) int
	// needsItem says that INSERT_FIRST inserts nothing if the item that it names is absent.
	needsItem bool
}

// apply returns the list after the patch has inserted, replaced or removed an item, and whether it
// did. It does not change the list that it is given.
func (w in[T]) apply(list []T, patch mesh.Patch, value T) ([]T, bool) {
	at := -1
	if w.named {
		at = slices.IndexFunc(list, w.is)
	}
	switch patch.Operation { //nolint:exhaustive // the others are not about lists
	case networking.EnvoyFilter_Patch_ADD:
		return inserted(list, w.addedAt(list), value), true
	case networking.EnvoyFilter_Patch_INSERT_FIRST:
		if w.named && w.needsItem && at < 0 {
			return list, false
		}
		return inserted(list, 0, value), true
	case networking.EnvoyFilter_Patch_INSERT_AFTER:
		return w.around(list, at, 1, w.addedAt(list), value)
	case networking.EnvoyFilter_Patch_INSERT_BEFORE:
		return w.around(list, at, 0, 0, value)
	case networking.EnvoyFilter_Patch_REPLACE:
		if at >= 0 {
			out := slices.Clone(list)
			out[at] = value
			return out, true
		}
	case networking.EnvoyFilter_Patch_REMOVE:
		if at >= 0 {
			return slices.DeleteFunc(slices.Clone(list), w.is), true
		}
	}
	return list, false
}

// around inserts a value beside the item that the patch names, or in its default place if it names
// none.
func (w in[T]) around(list []T, at, offset, unnamed int, value T) ([]T, bool) {
	switch {
	case !w.named:
		return inserted(list, unnamed, value), true
	case at < 0:
		return list, false
	}
	return inserted(list, at+offset, value), true
}

func inserted[T any](list []T, at int, value T) []T {
	return slices.Insert(slices.Clone(list), at, value)
}
