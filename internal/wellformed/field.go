package wellformed

import (
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field is one field of a message, as far as most have anything: a length and bytes, or a number.
type Field[T ~string | ~[]byte] struct {
	Number protowire.Number
	Type   protowire.Type
	Bytes  T      // of fields that are bytes
	Value  uint64 // of varints
}

// IsBytes tells whether the field has bytes, as strings and messages are.
func (f *Field[T]) IsBytes() bool { return f.Type == protowire.BytesType }

// IsVarint tells whether the field is a number of those that are as long as they need to be.
func (f *Field[T]) IsVarint() bool { return f.Type == protowire.VarintType }

// Fields are those of a message, in the order of its bytes. What is read must have been found to be well formed, and must not have
// groups of a known number; the bytes of a string are a part of that string, which nothing is copied from.
func Fields[T ~string | ~[]byte](b T) iter.Seq[Field[T]] {
	return func(yield func(Field[T]) bool) {
		for len(b) > 0 {
			var f Field[T]
			if f, b = next(b); !yield(f) {
				return
			}
		}
	}
}

// next returns the first field, and what follows it.
func next[T ~string | ~[]byte](b T) (f Field[T], rest T) {
	tag, b := varint(b)
	f.Number, f.Type = protowire.Number(tag>>3), protowire.Type(tag&7)
	switch f.Type {
	case protowire.BytesType:
		length, after := varint(b)
		f.Bytes, b = after[:length], after[length:]
	case protowire.VarintType:
		f.Value, b = varint(b)
	default: // which nobody asks for
		b = b[protowire.ConsumeFieldValue(f.Number, f.Type, []byte(b)):]
	}
	return f, b
}

func varint[T ~string | ~[]byte](b T) (v uint64, rest T) {
	for i, shift := 0, 0; ; i, shift = i+1, shift+7 {
		v |= uint64(b[i]&0x7f) << shift
		if b[i] < 0x80 {
			return v, b[i+1:]
		}
	}
}
