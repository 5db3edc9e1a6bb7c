package wire

import (
	"cmp"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Field numbers of the two forms of a response, and of the control plane in it.
const (
	versionField, typeURLField, nonceField            = 1, 4, 5 // of both
	removedField, deltaControlField, sotwControlField = 6, 7, 6
	identifierField                                   = 1
)

// Response is one message to a client about one type.
type Response struct {
	TypeURL, Revision, Nonce string
	Identifier               string // of the control plane; "" for that of the form
	Resources                []*served.Resource
	Removed                  []string
}

// Message is an encoded response. It refers to the resources' encodings without copying them, so
// that a stream with a slow client holds no copies. The codec of package rpc sends it as it is
// (Encoded); any other codec sees an ordinary proto.Message.
type Message struct {
	pieces mem.BufferSlice
	boxes  []mem.SliceBuffer // backing for the pieces that belong to no resource

	decode  sync.Once
	kind    func() proto.Message
	decoded proto.Message // set by the first ProtoReflect
}

// Encoded returns the response's bytes. The caller must not change them.
func (m *Message) Encoded() mem.BufferSlice { return m.pieces }

// ProtoReflect decodes the response, for codecs and tests that look into it.
func (m *Message) ProtoReflect() protoreflect.Message {
	m.decode.Do(func() {
		m.decoded = m.kind()
		if err := proto.Unmarshal(m.pieces.Materialize(), m.decoded); err != nil {
			panic("decode a response that was encoded here: " + err.Error())
		}
	})
	return m.decoded.ProtoReflect()
}

func (m *Message) add(piece []byte) {
	if len(piece) > 0 {
		m.boxes = append(m.boxes, piece)
		m.pieces = append(m.pieces, &m.boxes[len(m.boxes)-1])
	}
}

// addResource adds an element of a delta response without copying it.
func (m *Message) addResource(r *served.Resource) {
	e := r.Encoding()
	m.pieces = append(m.pieces, (*mem.SliceBuffer)(&e.Delta))
	m.addBody(r, e)
}

// addEnd adds an element of a state-of-the-world response, which is the end of a delta element.
func (m *Message) addEnd(r *served.Resource) {
	e := r.Encoding()
	m.add(e.Delta[e.SotW:])
	m.addBody(r, e)
}

func (m *Message) addBody(r *served.Resource, e *served.Encoded) {
	if !e.Whole && len(r.Body.GetValue()) > 0 {
		m.pieces = append(m.pieces, (*mem.SliceBuffer)(&r.Body.Value))
	}
}

// begin creates a message with everything but the resources, and room for this many boxes.
func (r *Response) begin(kind func() proto.Message, controlField protowire.Number, identifier string, removed []string, boxes int) *Message {
	pieces := 1
	for _, res := range r.Resources {
		if pieces++; !res.Encoding().Whole {
			pieces++
		}
	}
	m := &Message{kind: kind, boxes: make([]mem.SliceBuffer, 0, boxes), pieces: make(mem.BufferSlice, 0, pieces)}
	identifier = cmp.Or(r.Identifier, identifier)
	control := sizeOf(identifierField, len(identifier))
	size := sizeOf(versionField, len(r.Revision)) + sizeOf(typeURLField, len(r.TypeURL)) + sizeOf(nonceField, len(r.Nonce)) + sizeOf(controlField, control)
	for _, name := range removed {
		size += sizeOf(removedField, len(name))
	}
	b := make([]byte, 0, size)
	b = appendString(b, versionField, r.Revision)
	b = appendString(b, typeURLField, r.TypeURL)
	b = appendString(b, nonceField, r.Nonce)
	for _, name := range removed {
		b = appendString(b, removedField, name)
	}
	b = appendBegin(b, controlField, control)
	m.add(appendString(b, identifierField, identifier))
	return m
}

func deltaResponse() proto.Message { return &discoveryv3.DeltaDiscoveryResponse{} }
func sotwResponse() proto.Message  { return &discoveryv3.DiscoveryResponse{} }

// delta encodes the response in the delta form.
func (r *Response) delta(identifier string) *Message {
	m := r.begin(deltaResponse, deltaControlField, identifier, r.Removed, 1)
	for _, res := range r.Resources {
		m.addResource(res)
	}
	return m
}

// sotw encodes the response as a state of the world, which has no field for removed names.
func (r *Response) sotw(identifier string) *Message {
	m := r.begin(sotwResponse, sotwControlField, identifier, nil, 1+len(r.Resources))
	for _, res := range r.Resources {
		m.addEnd(res)
	}
	return m
}

func sizeOf(field protowire.Number, length int) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(length)
}

// appendBegin appends the tag and length of a field with this many bytes.
func appendBegin(b []byte, field protowire.Number, length int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(length))
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	return append(appendBegin(b, field, len(s)), s...)
}
