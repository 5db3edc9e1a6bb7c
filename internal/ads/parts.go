package ads

import "iter"

// part is what one of the messages says in which a step is sent.
type part struct {
	resources []*Resource
	removed   []string
}

// parts divides what is to be sent into messages of at most so many bytes, but for a resource that is larger by itself. There is one at
// least, even if it says nothing. 0 is no bound.
func parts(resources []*Resource, removed []string, most int) iter.Seq[part] {
	return func(yield func(part) bool) {
		for first := true; first || len(resources)+len(removed) > 0; first = false {
			left := most
			n := fitting(resources, (*Resource).size, &left, most)
			m := fitting(removed, func(name string) int { return sizeOf(removedField, len(name)) }, &left, most)
			if !yield(part{resources[:n], removed[:m]}) {
				return
			}
			resources, removed = resources[n:], removed[m:]
		}
	}
}

// fitting counts the elements that fit into what is left of a message. One fits into an empty message, however large it is.
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
