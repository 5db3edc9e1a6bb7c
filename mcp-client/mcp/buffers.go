package mcp

import "sync"

// buffers is a pool of the buffers in which messages are assembled that arrive in parts. gRPC's own
// pool uses a buffer of a megabyte for each such message and clears it every time, which took a
// tenth of the time to receive a large mesh.
type buffers struct{ pool sync.Pool }

// maxPooledBuffer is the size of the largest buffer to keep. Messages of pgmesh servers are a
// quarter of that.
const maxPooledBuffer = 1 << 20

var messages = &buffers{}

// Get returns a buffer of this length with arbitrary content.
func (b *buffers) Get(length int) *[]byte {
	if kept, ok := b.pool.Get().(*[]byte); ok && cap(*kept) >= length {
		*kept = (*kept)[:length]
		return kept
	}
	made := make([]byte, length)
	return &made
}

// Put returns a buffer to the pool.
func (b *buffers) Put(buffer *[]byte) {
	if cap(*buffer) <= maxPooledBuffer {
		b.pool.Put(buffer)
	}
}
