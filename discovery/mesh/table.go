package mesh

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"
)

// table is a map that never changes. A changed copy of it shares with it what did not change, and costs what did, beside a little memory that
// is moved. The zero table is empty.
type table[K comparable, V any] struct {
	shards []map[K]V // as many as a power of two; nil where nothing is
	size   int
}

// shardSize is how many entries a shard has when there are to be more shards: few, since a shard is copied whole.
const shardSize = 16

var tableSeed = maphash.MakeSeed()

func (t *table[K, V]) shardOf(key K) int {
	return int(maphash.Comparable(tableSeed, key) & uint64(len(t.shards)-1))
}

// find is the value for a key, and whether there is one.
func (t *table[K, V]) find(key K) (v V, ok bool) {
	if len(t.shards) == 0 {
		return v, false
	}
	v, ok = t.shards[t.shardOf(key)][key]
	return v, ok
}

// get is the value for a key, or the zero one.
func (t *table[K, V]) get(key K) V {
	v, _ := t.find(key)
	return v
}

// each iterates over all, in no order.
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

// tableEdit is a copy that is being made; it is read as a table is.
type tableEdit[K comparable, V any] struct {
	table[K, V]

	own []bool // the shards that are copies
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

// put sets a value, and removes the key of what counts as nothing.
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

// expect makes room for so many more.
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

// done is the table as it has become. The edit is over.
func (e *tableEdit[K, V]) done() table[K, V] {
	out := e.table
	e.own = make([]bool, len(e.shards))
	return out
}
