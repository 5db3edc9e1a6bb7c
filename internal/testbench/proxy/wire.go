package proxy

import (
	"fmt"
	"unique"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// name is the name of a resource. All proxies share one copy of it.
type name = unique.Handle[string]

// nameOf does not copy the bytes of a known name.
func nameOf(text []byte) name { return unique.Make(unsafe.String(unsafe.SliceData(text), len(text))) }

// field is an encoded field of a message: bytes for a length-delimited one, number for a numeric
// one.
type field struct {
	id     protowire.Number
	bytes  []byte
	number uint64
}

// walk calls visit with each field of a message.
func walk(message []byte, visit func(field) error) error {
	for len(message) > 0 {
		id, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("read a message: %w", protowire.ParseError(n))
		}
		message = message[n:]
		f := field{id: id}
		switch kind {
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			f.number, n = protowire.ConsumeVarint(message)
		default:
			n = protowire.ConsumeFieldValue(id, kind, message)
		}
		if n < 0 {
			return fmt.Errorf("read field %d of a message: %w", id, protowire.ParseError(n))
		}
		message = message[n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// find returns the last field with this number, like a decoder, or nil.
func find(message []byte, id protowire.Number) (found []byte, err error) {
	err = walk(message, func(f field) error {
		if f.id == id {
			found = f.bytes
		}
		return nil
	})
	return found, err
}

func appendText(to []byte, id protowire.Number, text string) []byte {
	if text == "" {
		return to
	}
	return protowire.AppendString(protowire.AppendTag(to, id, protowire.BytesType), text)
}

func appendBytes(to []byte, id protowire.Number, content []byte) []byte {
	if len(content) == 0 {
		return to
	}
	return protowire.AppendBytes(protowire.AppendTag(to, id, protowire.BytesType), content)
}
