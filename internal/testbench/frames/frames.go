// Package frames sends and receives messages as bytes, for minimal clients and servers.
package frames

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Frame is a message.
type Frame struct{ Data mem.BufferSlice }

// Of returns a frame of these bytes, which must not be changed afterwards.
func Of(content []byte) *Frame { return &Frame{mem.BufferSlice{mem.SliceBuffer(content)}} }

// Whole returns a received frame as one buffer, which the caller frees. It frees the frame.
func (f *Frame) Whole() mem.Buffer {
	defer f.Data.Free()
	return f.Data.MaterializeToBuffer(pool)
}

// pool has the buffers in which messages are assembled that arrive in parts.
var pool = mem.DefaultBufferPool()

// codec is gRPC's codec, except for frames.
type codec struct{ encoding.CodecV2 }

// Codec is gRPC's protobuf codec, which passes frames on as they are.
var Codec encoding.CodecV2 = codec{encoding.GetCodecV2(proto.Name)}

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*Frame); ok {
		return f.Data, nil
	}
	return c.CodecV2.Marshal(v)
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*Frame); ok {
		data.Ref()
		f.Data = data
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Dial connects to a server from which to read frames.
func Dial(address string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(Codec), grpc.MaxCallRecvMsgSize(1<<30)),
	}, opts...)...)
}

// Open starts a bidirectional stream.
func Open(ctx context.Context, conn *grpc.ClientConn, method string) (grpc.ClientStream, error) {
	return conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
}
