package client

import (
	"encoding/binary"
	"errors"
)

// request builds a packet: its length, which comes last, and fields in ZooKeeper's encoding, Jute.
type request []byte

func begin(xid, operation int32) request {
	return make(request, 4, 64).int(xid).int(operation)
}

func (r request) int(v int32) request  { return binary.BigEndian.AppendUint32(r, uint32(v)) }
func (r request) long(v int64) request { return binary.BigEndian.AppendUint64(r, uint64(v)) }

func (r request) bool(v bool) request {
	if v {
		return append(r, 1)
	}
	return append(r, 0)
}

func (r request) text(v string) request { return append(r.int(int32(len(v))), v...) }

// packet is the request as it is sent.
func (r request) packet() []byte {
	binary.BigEndian.PutUint32(r, uint32(len(r)-4))
	return r
}

var errShort = errors.New("an answer ends too early: what answers is no ZooKeeper, or the way to it is broken")

// answer reads fields. After the first one that is missing it reads zeros, and err says so.
type answer struct {
	rest []byte
	err  error
}

func (a *answer) take(n int) []byte {
	if a.err != nil || n < 0 || n > len(a.rest) {
		a.err = errShort
		return nil
	}
	taken := a.rest[:n]
	a.rest = a.rest[n:]
	return taken
}

func (a *answer) int() int32 {
	if b := a.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (a *answer) long() int64 {
	if b := a.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// bytes reads a buffer, which may be null: its length is -1 then.
func (a *answer) bytes() []byte {
	n := a.int()
	if n == -1 {
		return nil
	}
	return a.take(int(n))
}

// texts reads a list. Each text takes four bytes at least, so that a length that is not true makes no
// large list.
func (a *answer) texts() []string {
	n := int(a.int())
	if n == -1 {
		return nil
	}
	if n < 0 || n > len(a.rest)/4 {
		a.err = errShort
		return nil
	}
	out := make([]string, n)
	for i := range out {
		out[i] = string(a.bytes())
	}
	return out
}
