package mcp

import "sync"

// buffers is a pool of what messages are put together in that come in pieces. gRPC's own gives such a message a megabyte, and clears that
// each time, which took a tenth of what taking in a large mesh takes.
type buffers struct{ pool sync.Pool }

// keptBuffer is the largest that is kept: pgmesh servers send parts of a quarter of that.
const keptBuffer = 1 << 20

var messages = &buffers{}

// Get returns a buffer of this length, with anything in it.
func (b *buffers) Get(length int) *[]byte {
	if kept, ok := b.pool.Get().(*[]byte); ok && cap(*kept) >= length {
		*kept = (*kept)[:length]
		return kept
	}
	made := make([]byte, length)
	return &made
}

// Put takes a buffer back.
func (b *buffers) Put(buffer *[]byte) {
	if cap(*buffer) <= keptBuffer {
		b.pool.Put(buffer)
	}
}
