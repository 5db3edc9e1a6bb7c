package mesh

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/discovery/hostname"
)

// hostIndex finds values by a host and a namespace, wildcards included: the most specific host that
// contains the one asked for counts. It never changes.
type hostIndex[T any] struct {
	values table[hostAt, T]
	// lengths are the lengths of the wildcards in a namespace, the longest first: of two wildcards
	// that contain a host, the longer is more specific.
	lengths table[string, []wildcardLength]
}

// hostAt is a host in a namespace. For a wildcard, host is what follows the star.
type hostAt struct {
	namespace, host string
	wildcard        bool
}

func placeOf(namespace, host string) hostAt {
	if hostname.IsWildcard(host) {
		return hostAt{namespace, host[1:], true}
	}
	return hostAt{namespace: namespace, host: host}
}

// contains reports whether this host stands for every name that the given one stands for.
func (h hostAt) contains(host string) bool {
	if !h.wildcard {
		return host == h.host
	}
	return strings.HasSuffix(strings.TrimPrefix(host, "*"), h.host)
}

type wildcardLength struct{ length, count int }

// find returns the value of the most specific host that contains this one.
func (x *hostIndex[T]) find(namespace, host string) (v T, ok bool) {
	if v, ok = x.values.find(placeOf(namespace, host)); ok {
		return v, true
	}
	name := strings.TrimPrefix(host, "*")
	for _, l := range x.lengths.get(namespace) {
		if l.length > len(name) {
			continue
		}
		if v, ok = x.values.find(hostAt{namespace, name[len(name)-l.length:], true}); ok {
			return v, true
		}
	}
	return v, false
}

// edit begins a changed copy.
func (x *hostIndex[T]) edit() hostEdit[T] { return hostEdit[T]{x.values.edit(), x.lengths.edit()} }

type hostEdit[T any] struct {
	values  *tableEdit[hostAt, T]
	lengths *tableEdit[string, []wildcardLength]
}

// put sets the value of a host, or removes the host if nothing is set.
func (e hostEdit[T]) put(at hostAt, v T, nothing bool) {
	_, known := e.values.find(at)
	e.values.put(at, v, nothing)
	if at.wildcard && known == nothing {
		change := 1
		if nothing {
			change = -1
		}
		lengths := counted(e.lengths.get(at.namespace), len(at.host), change)
		e.lengths.put(at.namespace, lengths, len(lengths) == 0)
	}
}

// counted returns the lengths with one more, or one fewer, wildcard of a length.
func counted(lengths []wildcardLength, length, change int) []wildcardLength {
	out := slices.Clone(lengths)
	i, known := slices.BinarySearchFunc(out, length, func(l wildcardLength, length int) int { return cmp.Compare(length, l.length) })
	if !known {
		out = slices.Insert(out, i, wildcardLength{length: length})
	}
	out[i].count += change
	return slices.DeleteFunc(out, func(l wildcardLength) bool { return l.count == 0 })
}

func (e hostEdit[T]) done() hostIndex[T] {
	return hostIndex[T]{values: e.values.done(), lengths: e.lengths.done()}
}
