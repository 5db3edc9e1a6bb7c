package rpc

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
)

// Encoded is a message that is encoded already: what many streams are sent need not be encoded for
// each of them. It is a message like any other to whoever does not know that.
type Encoded interface {
	protobuf.Message
	// Encoded returns the message in pieces, which nobody may change.
	Encoded() mem.BufferSlice
}

// codec is gRPC's own, but for what is encoded already, and what decodes itself.
type codec struct{ encoding.CodecV2 }

func newCodec() encoding.CodecV2 { return codec{encoding.GetCodecV2(proto.Name)} }

// Decoder is a message that knows better than gRPC what of it is to be decoded.
type Decoder interface {
	protobuf.Message
	// Decode reads the message, and keeps nothing of data.
	Decode(data []byte) error
}

// Unmarshal lets messages decode themselves that can. Of a call with one request gRPC decodes that
// before any interceptor sees it.
func (c codec) Unmarshal(data mem.BufferSlice, v any) (err error) {
	defer panics.Catch("message", &err)
	m, ok := v.(Decoder)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	return m.Decode(whole.ReadOnlyData())
}

// Marshal passes the pieces on: gRPC copies them to the socket's buffer, and nothing before that.
func (c codec) Marshal(v any) (out mem.BufferSlice, err error) {
	defer panics.Catch("message", &err)
	if m, ok := v.(Encoded); ok {
		return m.Encoded(), nil
	}
	return c.CodecV2.Marshal(v)
}
