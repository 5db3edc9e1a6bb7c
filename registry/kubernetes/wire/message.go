// Package wire reads the protobuf of Kubernetes, which API servers offer for their own kinds beside
// JSON: a few fields of a message, without the types of all of them. It takes a tenth of the time.
package wire

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Message is a message of which one field after the other is read. What cannot be read ends it, with an
// error.
type Message struct {
	rest   []byte
	field  protowire.Number
	sort   protowire.Type
	bytes  []byte
	number uint64
	err    error
}

// Read reads a message.
func Read(message []byte) *Message { return &Message{rest: message} }

// Err is why a message could not be read.
func (m *Message) Err() error { return m.err }

// Next goes to the next field, and reports whether there is one.
func (m *Message) Next() bool {
	if m.err != nil || len(m.rest) == 0 {
		return false
	}
	field, sort, n := protowire.ConsumeTag(m.rest)
	if n < 0 {
		return m.fail(protowire.ParseError(n))
	}
	m.field, m.sort, m.rest = field, sort, m.rest[n:]
	switch sort {
	case protowire.VarintType:
		m.number, n = protowire.ConsumeVarint(m.rest)
	case protowire.BytesType:
		m.bytes, n = protowire.ConsumeBytes(m.rest)
	default:
		n = protowire.ConsumeFieldValue(field, sort, m.rest)
	}
	if n < 0 {
		return m.fail(protowire.ParseError(n))
	}
	m.rest = m.rest[n:]
	return true
}

func (m *Message) fail(err error) bool {
	if m.err == nil {
		m.err = err
	}
	return false
}

// Field is the number of the field.
func (m *Message) Field() protowire.Number { return m.field }

// is fails if the field is of another sort.
func (m *Message) is(sort protowire.Type) bool {
	if m.sort != sort {
		return m.fail(fmt.Errorf("field %d has the wire type %d in place of %d", m.field, m.sort, sort))
	}
	return true
}

// Bytes is the field as it stands in the message.
func (m *Message) Bytes() []byte {
	if !m.is(protowire.BytesType) {
		return nil
	}
	return m.bytes
}

// Text is the field as a text.
func (m *Message) Text() string { return string(m.Bytes()) }

// Number is the field as a number.
func (m *Message) Number() int64 {
	if !m.is(protowire.VarintType) {
		return 0
	}
	return int64(m.number)
}

// Bool is the field as a boolean.
func (m *Message) Bool() bool { return m.Number() != 0 }

// Port is the field as a number that is not negative, and fits.
func (m *Message) Port() uint32 {
	n := m.Number()
	if n < 0 || n > math.MaxUint32 {
		m.fail(fmt.Errorf("field %d is %d, which is no port", m.field, n))
		return 0
	}
	return uint32(n)
}

// Within reads the field as a message: each of its fields is given to a function.
func (m *Message) Within(field func(*Message)) {
	in := Message{rest: m.Bytes()}
	for in.Next() {
		field(&in)
	}
	if in.err != nil {
		m.fail(in.err)
	}
}

// Entry adds the field to a map, of which it is an entry.
func (m *Message) Entry(to *map[string]string) {
	key, value := m.entry()
	if *to == nil {
		*to = map[string]string{}
	}
	(*to)[string(key)] = string(value)
}

// Named takes the value of the field, which is an entry of a map, if it has this key.
func (m *Message) Named(key string, to *string) {
	if found, value := m.entry(); string(found) == key {
		*to = string(value)
	}
}

func (m *Message) entry() (key, value []byte) {
	m.Within(func(in *Message) {
		switch in.Field() {
		case 1:
			key = in.Bytes()
		case 2:
			value = in.Bytes()
		}
	})
	return key, value
}

// magic begins an object that is sent by itself.
const magic = "k8s\x00"

var errNoObject = errors.New("it is no protobuf of Kubernetes")

// Object is the message of an object that was sent by itself, and its kind.
func Object(sent []byte) (kind string, message []byte, err error) {
	if len(sent) < len(magic) || string(sent[:len(magic)]) != magic {
		return "", nil, errNoObject
	}
	m := Read(sent[len(magic):])
	for m.Next() {
		switch m.Field() {
		case 1:
			m.Within(func(in *Message) {
				if in.Field() == 2 {
					kind = in.Text()
				}
			})
		case 2:
			message = m.Bytes()
		}
	}
	return kind, message, m.Err()
}
