package wire

import (
	"iter"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Part is the content of one of the messages of a response.
type Part struct {
	Resources []*served.Resource
	Removed   []string
}

// Parts splits a response into messages of at most `most` bytes, except for a resource that is
// larger by itself. It yields at least one, even if that is empty. 0 means no bound.
func Parts(resources []*served.Resource, removed []string, most int) iter.Seq[Part] {
	return func(yield func(Part) bool) {
		for first := true; first || len(resources)+len(removed) > 0; first = false {
			left := most
			n := fitting(resources, (*served.Resource).Size, &left, most)
			m := fitting(removed, func(name string) int { return sizeOf(removedField, len(name)) }, &left, most)
			if !yield(Part{resources[:n], removed[:m]}) {
				return
			}
			resources, removed = resources[n:], removed[m:]
		}
	}
}

// fitting returns how many elements fit into the rest of a message. An empty message takes at least
// one, however large.
func fitting[E any](all []E, size func(E) int, left *int, most int) int {
	if most == 0 {
		return len(all)
	}
	for i, e := range all {
		s := size(e)
		if s > *left && *left < most {
			return i
		}
		*left -= s
	}
	return len(all)
}
