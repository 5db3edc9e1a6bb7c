// Package wellformed reports whether bytes can be decoded as a message, without decoding them.
//
// A client must refuse an undecodable message at once, but needs most messages decoded only later,
// or never. Checking costs a small part of decoding, and no memory.
package wellformed

import (
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Shape is the part of a message's descriptor that decides whether bytes can be decoded.
type Shape struct {
	low  [lowNumbers]*field // by number; nil for fields that need no check
	high map[protowire.Number]*field
}

// lowNumbers bounds the field numbers that low covers, which are nearly all.
const lowNumbers = 32

// field is a field whose content must be checked. All others are skipped like unknown fields: it is
// enough that a number is complete, or that all bytes are there.
type field struct {
	content content
	message *Shape
	isMap   bool
	size    int
}

type content uint8

const (
	text    content = iota + 1 // must be UTF-8
	message                    // must be well formed
	varints                    // a packed list
	fixed                      // a packed list of numbers of fixed size
)

// Takes reports whether proto.Unmarshal would accept b.
func (s *Shape) Takes(b []byte) bool { return s.takes(b, protowire.DefaultRecursionLimit) }

func (s *Shape) takes(b []byte, depth int) bool {
	if depth--; depth < 0 {
		return false
	}
	for len(b) > 0 {
		// Most tags and lengths are one byte: avoid a function call for them.
		tag, n := uint64(b[0]), 1
		if tag >= 0x80 {
			tag, n = protowire.ConsumeVarint(b)
		}
		if n < 0 || tag>>3 < uint64(protowire.MinValidNumber) || tag>>3 > uint64(protowire.MaxValidNumber) {
			return false
		}
		b = b[n:]
		number, wireType := protowire.Number(tag>>3), protowire.Type(tag&7)
		f := s.field(number)
		if f != nil && f.isMap && depth == 0 {
			return false // the decoder checks the depth before it checks whether this is a map
		}
		if wireType != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, wireType, b); n < 0 {
				return false
			}
			b = b[n:]
			continue
		}
		if len(b) == 0 {
			return false
		}
		length, n := uint64(b[0]), 1
		if length >= 0x80 {
			length, n = protowire.ConsumeVarint(b)
		}
		if n < 0 || length > uint64(len(b)-n) {
			return false
		}
		end := n + int(length)
		if f != nil && !f.takes(b[n:end], depth) {
			return false
		}
		b = b[end:]
	}
	return true
}

func (s *Shape) field(number protowire.Number) *field {
	if number < lowNumbers {
		return s.low[number]
	}
	return s.high[number]
}

func (f *field) takes(value []byte, depth int) bool {
	switch f.content {
	case text:
		return utf8.Valid(value)
	case message:
		return f.message.takes(value, depth)
	case fixed:
		return len(value)%f.size == 0
	}
	for len(value) > 0 {
		_, n := protowire.ConsumeVarint(value)
		if n < 0 {
			return false
		}
		value = value[n:]
	}
	return true
}

// shapes caches the Shape of each message.
var shapes = struct {
	sync.Mutex

	of map[protoreflect.FullName]*Shape
}{of: map[protoreflect.FullName]*Shape{}}

// Of returns the shape of a message. It panics if the message, or one within it, uses features of
// proto2: groups, required fields or extensions.
func Of(descriptor protoreflect.MessageDescriptor) *Shape {
	shapes.Lock()
	defer shapes.Unlock()
	return shapeOf(descriptor)
}

func shapeOf(descriptor protoreflect.MessageDescriptor) *Shape {
	if s := shapes.of[descriptor.FullName()]; s != nil {
		return s
	}
	if descriptor.ExtensionRanges().Len() > 0 || descriptor.RequiredNumbers().Len() > 0 {
		panic("wellformed: " + string(descriptor.FullName()) + " has extensions or required fields")
	}
	s := &Shape{high: map[protowire.Number]*field{}}
	shapes.of[descriptor.FullName()] = s // before its fields, because it may contain itself
	for i := range descriptor.Fields().Len() {
		s.add(descriptor.Fields().Get(i))
	}
	return s
}

func (s *Shape) add(descriptor protoreflect.FieldDescriptor) {
	f := fieldOf(descriptor)
	switch {
	case f.content == 0:
	case descriptor.Number() < lowNumbers:
		s.low[descriptor.Number()] = f
	default:
		s.high[descriptor.Number()] = f
	}
}

func fieldOf(descriptor protoreflect.FieldDescriptor) *field {
	switch kind := descriptor.Kind(); kind {
	case protoreflect.MessageKind:
		return &field{content: message, message: shapeOf(descriptor.Message()), isMap: descriptor.IsMap()}
	case protoreflect.GroupKind:
		panic("wellformed: " + string(descriptor.FullName()) + " is a group")
	case protoreflect.BytesKind:
		return &field{}
	case protoreflect.StringKind:
		if !checked(descriptor) {
			return &field{}
		}
		return &field{content: text}
	default:
		if !descriptor.IsList() {
			return &field{}
		}
		return packed(kind)
	}
}

func packed(kind protoreflect.Kind) *field {
	switch kind {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return &field{content: fixed, size: 4}
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return &field{content: fixed, size: 8}
	}
	return &field{content: varints}
}

// checked reports whether the decoder requires UTF-8, as the decoder itself decides it.
func checked(descriptor protoreflect.FieldDescriptor) bool {
	if d, ok := descriptor.(interface{ EnforceUTF8() bool }); ok {
		return d.EnforceUTF8()
	}
	return descriptor.Syntax() == protoreflect.Proto3
}
