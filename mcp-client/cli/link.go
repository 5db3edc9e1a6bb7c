package cli

import (
	"context"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// link hears how the streams to the server fare, which the client library mends by itself. Its functions are called one at
// a time.
type link struct {
	up   func()
	down func(error)
	mu   sync.Mutex
}

func (l *link) option() grpc.DialOption {
	return grpc.WithChainStreamInterceptor(l.intercept)
}

func (l *link) intercept(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		l.broken(ctx, method, err)
		return nil, err
	}
	// The stream's own context ends with the stream, the caller's does not.
	return &linkedStream{ClientStream: stream, up: l.heard, down: func(err error) { l.broken(ctx, method, err) }}, nil
}

// broken reports the end of a stream, unless the client ended it or will go on with the other form of the protocol.
func (l *link) broken(ctx context.Context, method string, err error) {
	incremental := strings.HasSuffix(method, "/DeltaAggregatedResources")
	if ctx.Err() != nil || incremental && status.Code(err) == codes.Unimplemented {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down(err)
}

func (l *link) heard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up()
}

type linkedStream struct {
	grpc.ClientStream

	up    func()
	down  func(error)
	heard bool
}

// RecvMsg is called from one goroutine at a time, as gRPC demands.
func (s *linkedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case err != nil:
		s.down(err)
	case !s.heard:
		s.heard = true
		s.up()
	}
	return err
}
