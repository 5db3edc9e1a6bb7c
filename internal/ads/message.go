package ads

import (
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// message is an encoded response. It refers to the resources' encodings without copying them, so that a
// stream with a slow client holds no copies. The codec of package rpc sends it as it is (Encoded); any other
// codec sees an ordinary proto.Message.
type message struct {
	pieces mem.BufferSlice
	boxes  []mem.SliceBuffer // backing for the pieces that belong to no resource

	decode  sync.Once
	kind    func() proto.Message
	decoded proto.Message // set by the first ProtoReflect
}

// Encoded returns the response's bytes. The caller must not change them.
func (m *message) Encoded() mem.BufferSlice { return m.pieces }

// ProtoReflect decodes the response, for codecs and tests that look into it.
func (m *message) ProtoReflect() protoreflect.Message {
	m.decode.Do(func() {
		m.decoded = m.kind()
		if err := proto.Unmarshal(m.pieces.Materialize(), m.decoded); err != nil {
			panic("decode a response that was encoded here: " + err.Error())
		}
	})
	return m.decoded.ProtoReflect()
}

func (m *message) add(piece []byte) {
	if len(piece) > 0 {
		m.boxes = append(m.boxes, piece)
		m.pieces = append(m.pieces, &m.boxes[len(m.boxes)-1])
	}
}

// addResource adds an element of a delta response without copying it.
func (m *message) addResource(r *Resource) {
	e := r.encoding()
	m.pieces = append(m.pieces, (*mem.SliceBuffer)(&e.delta))
	m.addBody(r, e)
}

// addEnd adds an element of a state-of-the-world response, which is the end of a delta element.
func (m *message) addEnd(r *Resource) {
	e := r.encoding()
	m.add(e.delta[e.sotw:])
	m.addBody(r, e)
}

func (m *message) addBody(r *Resource, e *encoded) {
	if !e.whole && len(r.Body.GetValue()) > 0 {
		m.pieces = append(m.pieces, (*mem.SliceBuffer)(&r.Body.Value))
	}
}

// begin creates a message with everything but the resources, and room for this many boxes.
func (r *response) begin(kind func() proto.Message, controlField protowire.Number, identifier string, removed []string, boxes int) *message {
	pieces := 1
	for _, res := range r.resources {
		if pieces++; !res.encoding().whole {
			pieces++
		}
	}
	m := &message{kind: kind, boxes: make([]mem.SliceBuffer, 0, boxes), pieces: make(mem.BufferSlice, 0, pieces)}
	control := sizeOf(identifierField, len(identifier))
	size := sizeOf(versionField, len(r.revision)) + sizeOf(typeURLField, len(r.typeURL)) + sizeOf(nonceField, len(r.nonce)) + sizeOf(controlField, control)
	for _, name := range removed {
		size += sizeOf(removedField, len(name))
	}
	b := make([]byte, 0, size)
	b = appendString(b, versionField, r.revision)
	b = appendString(b, typeURLField, r.typeURL)
	b = appendString(b, nonceField, r.nonce)
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
func (r *response) delta(identifier string) *message {
	m := r.begin(deltaResponse, deltaControlField, identifier, r.removed, 1)
	for _, res := range r.resources {
		m.addResource(res)
	}
	return m
}

// sotw encodes the response as a state of the world, which has no field for removed names.
func (r *response) sotw(identifier string) *message {
	m := r.begin(sotwResponse, sotwControlField, identifier, nil, 1+len(r.resources))
	for _, res := range r.resources {
		m.addEnd(res)
	}
	return m
}
