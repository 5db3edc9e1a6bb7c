package mcp

import (
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/kit/wellformed"
	"github.com/pgmesh/pgmesh/kinds"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// received is a message as it arrived. What is read from it aliases its buffer, which returns to
// the pool on release: most of a message is copied only if it is kept, and what the client already
// has is not copied at all.
type received struct {
	form *form
	data mem.Buffer
}

// form is a type of message that a server sends.
type form struct {
	empty proto.Message
	shape func() *wellformed.Shape
}

func newForm(empty proto.Message) *form {
	return &form{empty, sync.OnceValue(func() *wellformed.Shape { return wellformed.Of(empty.ProtoReflect().Descriptor()) })}
}

var (
	deltaForm  = newForm(&discoveryv3.DeltaDiscoveryResponse{})
	sotwForm   = newForm(&discoveryv3.DiscoveryResponse{})
	legacyForm = newForm(&legacyv1.Resources{})
)

// check returns why bytes are not a valid message of this form.
func (f *form) check(b []byte) error {
	if f.shape().Takes(b) {
		return nil
	}
	return proto.Unmarshal(b, f.empty.ProtoReflect().New().Interface())
}

// receive reads the next message of a stream. The caller frees it.
func (f *form) receive(stream grpc.ClientStream) (*received, error) {
	m := &received{form: f}
	if err := stream.RecvMsg(m); err != nil {
		return nil, err
	}
	return m, nil
}

// codec is gRPC's protobuf codec, except that it decodes received messages itself.
type codec struct{ encoding.CodecV2 }

func newCodec() encoding.CodecV2 { return codec{encoding.GetCodecV2(grpcproto.Name)} }

// An empty name keeps the default content type.
func (codec) Name() string { return "" }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*received)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	m.data = data.MaterializeToBuffer(messages)
	if err := m.form.check(m.data.ReadOnlyData()); err != nil {
		m.data.Free()
		return err
	}
	return nil
}

func (m *received) delta() *response {
	r := readResponse(m.data.ReadOnlyData(), false)
	r.free = m.data.Free
	return r
}

func (m *received) sotw() *response {
	r := readResponse(m.data.ReadOnlyData(), true)
	r.free = m.data.Free
	return r
}

func (m *received) legacy() (r *response, incremental bool) {
	r, incremental = readLegacy(m.data.ReadOnlyData())
	r.free = m.data.Free
	return r, incremental
}

// The field numbers below are those of the protocol.

// readResponse reads a response of either xDS form, which have most fields in common.
func readResponse(b []byte, full bool) *response {
	r := &response{full: full, resources: make([]item, 0, count(b, 2))}
	for f := range wellformed.Fields(b) {
		if !f.IsBytes() {
			continue
		}
		switch {
		case f.Number == 1:
			r.version = string(f.Bytes)
		case f.Number == 2 && full:
			it := item{}
			it.body.Read(f.Bytes)
			r.resources = append(r.resources, it)
		case f.Number == 2:
			r.resources = append(r.resources, readResource(f.Bytes))
		case f.Number == 4:
			r.typeURL = string(f.Bytes)
		case f.Number == 5:
			r.nonce = string(f.Bytes)
		case f.Number == 6 && !full:
			r.removed = append(r.removed, string(f.Bytes))
		case f.Number == 6 && full, f.Number == 7 && !full:
			r.server = identifier(r.server, f.Bytes)
		}
	}
	return r
}

// readResource reads one resource of an incremental response.
func readResource(b []byte) (it item) {
	for f := range wellformed.Fields(b) {
		if !f.IsBytes() {
			continue
		}
		switch f.Number {
		case 1:
			it.version = f.Bytes
		case 2:
			it.body.Read(f.Bytes)
		case 3:
			it.name = f.Bytes
		}
	}
	return it
}

// identifier reads the server's identifier from its control plane field.
func identifier(before string, b []byte) string {
	for f := range wellformed.Fields(b) {
		if f.IsBytes() && f.Number == 1 {
			before = string(f.Bytes)
		}
	}
	return before
}

// readLegacy reads a response of the first generation, and whether it is incremental.
func readLegacy(b []byte) (r *response, incremental bool) {
	r = &response{resources: make([]item, 0, count(b, 3))}
	for f := range wellformed.Fields(b) {
		switch {
		case f.IsVarint() && f.Number == 6:
			incremental = f.Value != 0
		case !f.IsBytes():
		case f.Number == 1:
			r.version = string(f.Bytes)
		case f.Number == 2:
			r.typeURL = string(f.Bytes)
		case f.Number == 3:
			r.resources = append(r.resources, item{envelope: true, body: kinds.Body{Value: f.Bytes, Present: true}})
		case f.Number == 4:
			r.removed = append(r.removed, string(f.Bytes))
		case f.Number == 5:
			r.nonce = string(f.Bytes)
		}
	}
	return r, incremental
}

// count returns how often a message has a field, to allocate a list of the right size.
func count(b []byte, number protowire.Number) (n int) {
	for f := range wellformed.Fields(b) {
		if f.Number == number {
			n++
		}
	}
	return n
}

// any copies the body into an Any.
func (it *item) any() *anypb.Any {
	return &anypb.Any{TypeUrl: string(it.body.TypeURL), Value: append([]byte(nil), it.body.Value...)}
}
