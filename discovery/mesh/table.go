package mesh

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"
)

// table is a map that never changes. A changed copy shares what did not change, and costs about as
// much as what did. The zero table is empty.
type table[K comparable, V any] struct {
	shards []map[K]V // their number is a power of two; nil if empty
	size   int
}

// shardSize is the number of entries in a shard beyond which there are to be more shards. It is
// small because a shard is copied whole.
const shardSize = 16

var tableSeed = maphash.MakeSeed()

func (t *table[K, V]) shardOf(key K) int {
	return int(maphash.Comparable(tableSeed, key) & uint64(len(t.shards)-1))
}

// find returns the value for a key, and whether there is one.
func (t *table[K, V]) find(key K) (v V, ok bool) {
	if len(t.shards) == 0 {
		return v, false
	}
	v, ok = t.shards[t.shardOf(key)][key]
	return v, ok
}

// get returns the value for a key, or the zero value.
func (t *table[K, V]) get(key K) V {
	v, _ := t.find(key)
	return v
}

// each yields all entries, in no order.
func (t *table[K, V]) each() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, shard := range t.shards {
			for k, v := range shard {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// edit begins a changed copy.
func (t *table[K, V]) edit() *tableEdit[K, V] {
	return &tableEdit[K, V]{table: table[K, V]{shards: slices.Clone(t.shards), size: t.size}, own: make([]bool, len(t.shards))}
}

// tableEdit is a copy that is being changed. It can be read like a table.
type tableEdit[K comparable, V any] struct {
	table[K, V]

	own []bool // which shards are copies already
}

func (e *tableEdit[K, V]) set(key K, v V) {
	if e.size >= shardSize*len(e.shards) {
		e.resize(max(1, 2*len(e.shards)))
	}
	shard := e.ownShard(key)
	before := len(shard)
	shard[key] = v
	e.size += len(shard) - before
}

func (e *tableEdit[K, V]) remove(key K) {
	if _, ok := e.find(key); ok {
		delete(e.ownShard(key), key)
		e.size--
	}
}

// put sets a value, or removes the key if nothing is set.
func (e *tableEdit[K, V]) put(key K, v V, nothing bool) {
	if nothing {
		e.remove(key)
	} else {
		e.set(key, v)
	}
}

func (e *tableEdit[K, V]) ownShard(key K) map[K]V {
	i := e.shardOf(key)
	if !e.own[i] {
		shard := make(map[K]V, len(e.shards[i])+1)
		maps.Copy(shard, e.shards[i])
		e.shards[i], e.own[i] = shard, true
	}
	return e.shards[i]
}

// expect makes room for more entries.
func (e *tableEdit[K, V]) expect(more int) {
	n := max(1, len(e.shards))
	for e.size+more > shardSize*n {
		n *= 2
	}
	if n > len(e.shards) {
		e.resize(n)
	}
}

func (e *tableEdit[K, V]) resize(n int) {
	old := e.table
	e.table = table[K, V]{shards: make([]map[K]V, n), size: old.size}
	e.own = make([]bool, n)
	for k, v := range old.each() {
		e.ownShard(k)[k] = v
	}
}

// done returns the changed table, and ends the edit.
func (e *tableEdit[K, V]) done() table[K, V] {
	out := e.table
	e.own = make([]bool, len(e.shards))
	return out
}
