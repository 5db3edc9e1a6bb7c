package relay

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// message is one that is passed on as it came.
type message struct{ bytes []byte }

// codec is gRPC's own, but for messages that are passed on.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// ServerOption is for the gRPC server that a relay is registered on, which may have other services beside it.
func ServerOption() grpc.ServerOption { return grpc.ForceServerCodecV2(newCodec()) }

// Unmarshal takes a message as it is.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*message); ok {
		m.bytes = data.Materialize()
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Marshal gives a message as it is.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*message); ok {
		return mem.BufferSlice{mem.SliceBuffer(m.bytes)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// received is the next message of a stream.
func received(stream interface{ RecvMsg(m any) error }) (*message, error) {
	m := &message{}
	return m, stream.RecvMsg(m)
}
