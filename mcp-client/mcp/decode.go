package mcp

import (
	"slices"

	"github.com/pgmesh/pgmesh/internal/kit/parallel"
	"github.com/pgmesh/pgmesh/kinds"
)

// decoded is a resource after decoding it, before it is added to the state.
type decoded struct {
	unwrapped

	now version // with the resource, if that was decoded
	err error
}

// decodeChunk is how many resources of a response are decoded at a time. It bounds memory: a
// response may be very large, and a decoded item is as large as a small resource.
const decodeChunk = 1024

// decodeAll unwraps resources, and decodes those that changed, which is nearly all the work of
// receiving a large mesh. So it uses all processors. The list must not change meanwhile. The result
// is valid until the next call.
func (s *session) decodeAll(kind *kinds.Kind, l *list, items []item) []decoded {
	s.decoded = slices.Grow(s.decoded[:0], len(items))
	results := s.decoded[:len(items)]
	parallel.Each(len(items), func(i int) { s.decode(kind, l, items[i], &results[i]) })
	return results
}

func (s *session) decode(kind *kinds.Kind, l *list, it item, k *decoded) {
	if k.unwrapped, k.err = unwrap(kind, it); k.err != nil {
		return
	}
	k.now.server = k.server
	if !s.pgmesh || k.server == "" {
		k.now.content = k.digest()
	}
	if k.changed(l) {
		k.now.resource, k.err = k.decode()
	}
}

// changed reports whether the list has another version of the resource, or none.
func (k *decoded) changed(l *list) bool {
	had := l.find(k.name)
	return had == nil || !had.same(&k.now)
}
