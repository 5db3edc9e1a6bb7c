package wellformed

import (
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field is one field of an encoded message: bytes or a varint. Other types have only Number and
// Type.
type Field[T ~string | ~[]byte] struct {
	Number protowire.Number
	Type   protowire.Type
	Bytes  T      // of fields that are bytes
	Value  uint64 // of varints
}

// IsBytes reports whether the field has bytes, as strings and messages do.
func (f *Field[T]) IsBytes() bool { return f.Type == protowire.BytesType }

// IsVarint reports whether the field is a varint.
func (f *Field[T]) IsVarint() bool { return f.Type == protowire.VarintType }

// Fields iterates over the fields of an encoded message, without copying. The message must be well
// formed and must not have groups of known numbers.
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
	default: // skip other types
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
