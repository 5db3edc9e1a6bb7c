package mesh

import (
	"hash/maphash"
	"slices"

	"github.com/pgmesh/pgmesh/kinds"
)

// keyLists are lists of the keys of resources, by what those name. It never changes; a changed copy
// shares what did not change. Thousands may name one thing, so a list is in parts, of which one more
// key costs one.
type keyLists[K comparable] struct {
	parts table[keyPart[K], []kinds.Key]
}

// keyPart is a part of a list. Which part a key is in follows from the key.
type keyPart[K comparable] struct {
	of   K
	part uint8
}

// keyParts is into how many parts a list is divided at most.
const keyParts = 16

func partOf[K comparable](of K, key kinds.Key) keyPart[K] {
	return keyPart[K]{of, uint8(maphash.Comparable(tableSeed, key) % keyParts)}
}

// get lists the keys of those that name something.
func (l *keyLists[K]) get(of K) (out []kinds.Key) {
	for part := range uint8(keyParts) {
		out = append(out, l.parts.get(keyPart[K]{of, part})...)
	}
	return out
}

// has reports whether anybody names something.
func (l *keyLists[K]) has(of K) bool {
	for part := range uint8(keyParts) {
		if len(l.parts.get(keyPart[K]{of, part})) > 0 {
			return true
		}
	}
	return false
}

// named lists what somebody names, perhaps several times.
func (l *keyLists[K]) named() (out []K) {
	for part := range l.parts.each() {
		out = append(out, part.of)
	}
	return out
}

// keyed is something that is made from one resource.
type keyed interface {
	comparable
	Key() kinds.Key
}

// changedKeys are lists in which some went and others came, each with what it names.
func changedKeys[T keyed, K comparable](lists keyLists[K], gone, come []T, named func(T) []K) keyLists[K] {
	changes := exchangesBy(gone, come, func(one T) (parts []keyPart[K]) {
		for _, of := range named(one) {
			parts = append(parts, partOf(of, one.Key()))
		}
		return parts
	})
	if len(changes) == 0 {
		return lists
	}
	edit := lists.parts.edit()
	for part, c := range changes {
		before, after := keysOf(c.Gone), keysOf(c.Come)
		if slices.Equal(before, after) {
			continue // the same ones, edited
		}
		list := patched(lists.parts.get(part), before, after, kinds.Key.Compare)
		edit.put(part, list, len(list) == 0)
	}
	return keyLists[K]{edit.done()}
}

func keysOf[T keyed](all []T) (out []kinds.Key) {
	for _, one := range all {
		out = append(out, one.Key())
	}
	return out
}
