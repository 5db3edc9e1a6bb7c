package main

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// frame is a message that is sent and received as bytes: what the least of clients and servers needs.
type frame struct{ data mem.BufferSlice }

// frames is gRPC's codec but for frames.
type frames struct{ encoding.CodecV2 }

// pool is where messages are put together that came in pieces.
var pool = mem.DefaultBufferPool()

var asFrames = frames{encoding.GetCodecV2(proto.Name)}

func (c frames) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*frame); ok {
		return f.data, nil
	}
	return c.CodecV2.Marshal(v)
}

func (c frames) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*frame); ok {
		data.Ref()
		f.data = data
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// dialFrames connects to a server of which frames are read.
func dialFrames(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(asFrames), grpc.MaxCallRecvMsgSize(1<<30)))
}

// head is what a client has to know of a response in order to answer it, and to count.
type head struct {
	revision, typeURL, nonce string
	resources                int
}

// readHead goes through a DeltaDiscoveryResponse without making anything of the resources in it.
func readHead(data []byte) (h head, err error) {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return h, fmt.Errorf("read a response: %w", protowire.ParseError(n))
		}
		data = data[n:]
		if kind != protowire.BytesType {
			return h, fmt.Errorf("read a response: field %d is of the kind %d, which none of it is", number, kind)
		}
		value, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return h, fmt.Errorf("read a response: %w", protowire.ParseError(n))
		}
		data = data[n:]
		switch number {
		case 1:
			h.revision = string(value)
		case 2:
			h.resources++
		case 4:
			h.typeURL = string(value)
		case 5:
			h.nonce = string(value)
		}
	}
	return h, nil
}
