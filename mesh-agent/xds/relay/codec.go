package relay

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// message is an undecoded message.
type message struct{ bytes []byte }

// codec is gRPC's protobuf codec, extended by messages that are passed on undecoded.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// ServerOption sets the codec of the gRPC server that the relay is registered on. Other services
// may share that server.
func ServerOption() grpc.ServerOption { return grpc.ForceServerCodecV2(newCodec()) }

// Unmarshal copies the bytes of a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*message); ok {
		m.bytes = data.Materialize()
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Marshal returns the bytes of a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*message); ok {
		return mem.BufferSlice{mem.SliceBuffer(m.bytes)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// receive reads the next message of a stream.
func receive(stream interface{ RecvMsg(m any) error }) (*message, error) {
	m := &message{}
	return m, stream.RecvMsg(m)
}
