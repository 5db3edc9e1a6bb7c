package mesh

import (
	"slices"
	"sync"
)

// order compares two values. Equal ones are variants of one.
type order[T any] func(a, b T) int

// patched returns a sorted list without some of its elements and with others, each in its place.
// The list itself stays. It costs a memory move, and a search for each change.
func patched[T comparable](list, gone, come []T, compare order[T]) []T {
	if len(gone) == 0 && len(come) == 0 {
		return list
	}
	gone, come = sortedCopy(gone, compare), sortedCopy(come, compare)
	out := make([]T, 0, len(list)+len(come))
	for len(gone) > 0 || len(come) > 0 {
		leaves := len(gone) > 0 && (len(come) == 0 || compare(gone[0], come[0]) <= 0)
		next := come
		if leaves {
			next = gone
		}
		run, _ := slices.BinarySearchFunc(list, next[0], compare)
		out, list = append(out, list[:run]...), list[run:]
		if leaves {
			switch i := slices.Index(list, gone[0]); {
			case i == 0:
				list = list[1:]
			case i > 0: // among those that are equal in order
				list = slices.Concat(list[:i], list[i+1:])
			}
			gone = gone[1:]
		} else {
			out, come = append(out, come[0]), come[1:]
		}
	}
	return slices.Clip(append(out, list...))
}

// patches remembers what lists became, so that scopes that share a list go on sharing it.
type patches[T comparable] struct {
	mu   sync.Mutex
	made map[*T][]patch[T] // by the first element of the list
}

type patch[T comparable] struct {
	length int
	Exchange[T]

	list []T
}

// patched does what the function does. The order must be the same each time for the elements that
// the change is about.
func (p *patches[T]) patched(list []T, c Exchange[T], compare order[T]) []T {
	if len(list) == 0 || len(c.Gone) == 0 && len(c.Come) == 0 {
		return patched(list, c.Gone, c.Come, compare)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, known := range p.made[&list[0]] {
		if known.length == len(list) && slices.Equal(known.Gone, c.Gone) && slices.Equal(known.Come, c.Come) {
			return known.list
		}
	}
	out := patched(list, c.Gone, c.Come, compare)
	if p.made == nil {
		p.made = map[*T][]patch[T]{}
	}
	p.made[&list[0]] = append(p.made[&list[0]], patch[T]{len(list), c, out})
	return out
}

func sortedCopy[T any](list []T, compare order[T]) []T {
	if len(list) < 2 {
		return list
	}
	out := slices.Clone(list)
	slices.SortStableFunc(out, compare)
	return out
}

// Exchange says what went from a list and what came to it.
type Exchange[T comparable] struct{ Gone, Come []T }

// ExchangeOf compares two lists. It quickly skips what both begin and end with.
func ExchangeOf[T comparable](before, now []T) Exchange[T] {
	before, now = trimmed(before, now)
	return Exchange[T]{onlyIn(before, now), onlyIn(now, before)}
}

// KeepsOrder reports whether what both lists of the exchange have is in the same order in both.
func (x Exchange[T]) KeepsOrder(before, now []T) bool {
	before, now = trimmed(before, now)
	return slices.Equal(onlyIn(before, x.Gone), onlyIn(now, x.Come))
}

// trimmed leaves out what both lists begin and end with.
func trimmed[T comparable](before, now []T) (from, to []T) {
	for len(before) > 0 && len(now) > 0 && before[0] == now[0] {
		before, now = before[1:], now[1:]
	}
	for len(before) > 0 && len(now) > 0 && before[len(before)-1] == now[len(now)-1] {
		before, now = before[:len(before)-1], now[:len(now)-1]
	}
	return before, now
}

// onlyIn lists what is in one list and not in the other. Both may be long.
func onlyIn[T comparable](list, other []T) (out []T) {
	there := make(map[T]bool, len(other))
	for _, v := range other {
		there[v] = true
	}
	for _, v := range list {
		if !there[v] {
			out = append(out, v)
		}
	}
	return out
}

// exchangesBy groups changes by the keys of their elements.
func exchangesBy[K, T comparable](gone, come []T, keys func(T) []K) map[K]*Exchange[T] {
	out := map[K]*Exchange[T]{}
	at := func(key K) *Exchange[T] {
		if out[key] == nil {
			out[key] = &Exchange[T]{}
		}
		return out[key]
	}
	for _, v := range gone {
		for _, key := range keys(v) {
			at(key).Gone = append(at(key).Gone, v)
		}
	}
	for _, v := range come {
		for _, key := range keys(v) {
			at(key).Come = append(at(key).Come, v)
		}
	}
	return out
}

// patchedLists changes sorted lists. An element may be in several of them.
func patchedLists[K, T comparable](lists table[K, []T], gone, come []T, keys func(T) []K, compare order[T]) table[K, []T] {
	changes := exchangesBy(gone, come, keys)
	if len(changes) == 0 {
		return lists
	}
	edit := lists.edit()
	if len(come) > len(gone) {
		edit.expect(min(len(changes), len(come)-len(gone)))
	}
	for key, c := range changes {
		list := patched(lists.get(key), c.Gone, c.Come, compare)
		edit.put(key, list, len(list) == 0)
	}
	return edit.done()
}

// without lists what is in one list and not in the other. Both are short.
func without[T comparable](list, other []T) []T {
	var out []T
	for _, v := range list {
		if !slices.Contains(other, v) {
			out = append(out, v)
		}
	}
	return out
}
