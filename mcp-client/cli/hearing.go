package cli

import (
	"context"

	"google.golang.org/grpc"
)

// hearing calls a function for each message that comes over the streams of a connection.
func hearing(heard func()) grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
		open grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		stream, err := open(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, err
		}
		return &heardStream{stream, heard}, nil
	})
}

type heardStream struct {
	grpc.ClientStream
	heard func()
}

func (s *heardStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.heard()
	}
	return err
}
