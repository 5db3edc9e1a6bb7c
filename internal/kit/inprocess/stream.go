package inprocess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
)

// open runs the handler of a stream in a goroutine, which Server.Wait waits for. The handler should
// return when the context ends.
func (s *Server) open(ctx context.Context, of *service, desc *grpc.StreamDesc, fullMethod string) grpc.ClientStream {
	st := &stream{request: make(chan proto.Message, 1), answers: make(chan proto.Message), ended: make(chan struct{}), client: ctx}
	server := &serverStream{stream: st, ctx: grpc.NewContextWithServerTransportStream(incoming(ctx), &st.headers)}
	st.headers.method = fullMethod
	s.running.Go(func() {
		defer close(st.ended)
		defer panics.Catch("stream", &st.err)
		if s.stream == nil {
			st.err = desc.Handler(of.impl, server)
			return
		}
		info := &grpc.StreamServerInfo{FullMethod: fullMethod, IsServerStream: desc.ServerStreams}
		st.err = s.stream(of.impl, server, info, desc.Handler)
	})
	return st
}

// stream is the client's end of a server stream.
type stream struct {
	request chan proto.Message
	answers chan proto.Message
	ended   chan struct{}
	err     error           // the handler's error; read only after ended is closed
	client  context.Context //nolint:containedctx // gRPC asks a stream for its context
	headers headers
}

func (s *stream) Context() context.Context { return s.client }
func (s *stream) CloseSend() error         { return nil }

// Header returns the headers that the handler has set so far.
func (s *stream) Header() (metadata.MD, error) { return s.headers.get(), nil }

// Trailer is empty: SetTrailer drops trailers.
func (s *stream) Trailer() metadata.MD { return nil }

// SendMsg sends the one request.
func (s *stream) SendMsg(m any) error {
	request, ok := m.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "%T is no message", m)
	}
	select {
	case s.request <- proto.Clone(request):
		return nil
	default:
		return status.Error(codes.Internal, "a call that is answered by a stream has one request")
	}
}

// RecvMsg waits for an answer. After the last one it returns io.EOF or the handler's error.
func (s *stream) RecvMsg(m any) error {
	select {
	case answer := <-s.answers:
		return copyMessage(m, answer)
	case <-s.ended:
		if s.err == nil {
			return io.EOF
		}
		return statusOf(s.err)
	case <-s.client.Done():
		return status.FromContextError(s.client.Err()).Err()
	}
}

// serverStream is the handler's end of the same stream.
type serverStream struct {
	*stream

	ctx      context.Context //nolint:containedctx // gRPC asks a stream for its context
	received bool
}

func (s *serverStream) Context() context.Context       { return s.ctx }
func (s *serverStream) SetHeader(m metadata.MD) error  { return s.headers.SetHeader(m) }
func (s *serverStream) SendHeader(m metadata.MD) error { return s.headers.SendHeader(m) }
func (s *serverStream) SetTrailer(m metadata.MD)       { _ = s.headers.SetTrailer(m) }

// SendMsg waits until the client receives the answer.
func (s *serverStream) SendMsg(m any) error {
	answer, ok := m.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "%T is no message", m)
	}
	select {
	case s.answers <- proto.Clone(answer):
		return nil
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

// RecvMsg returns the request the first time, then io.EOF.
func (s *serverStream) RecvMsg(m any) error {
	if s.received {
		return io.EOF
	}
	select {
	case request := <-s.request:
		s.received = true
		return copyMessage(m, request)
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

// headers collects what a handler sends before its answer.
type headers struct {
	method string
	mu     sync.Mutex
	ahead  metadata.MD
}

// Method returns the full name of the called method.
func (h *headers) Method() string { return h.method }

// SetHeader adds headers.
func (h *headers) SetHeader(m metadata.MD) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead = metadata.Join(h.ahead, m)
	return nil
}

// SendHeader is SetHeader: the caller sees headers at once.
func (h *headers) SendHeader(m metadata.MD) error { return h.SetHeader(m) }

// SetTrailer drops trailers: the translated protocols have no place for them.
func (h *headers) SetTrailer(metadata.MD) error { return nil }

func (h *headers) get() metadata.MD {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ahead.Copy()
}

// fill stores the headers where the caller's options ask for them.
func (h *headers) fill(opts []grpc.CallOption) {
	for _, o := range opts {
		if wanted, is := o.(grpc.HeaderCallOption); is {
			*wanted.HeaderAddr = h.get()
		}
	}
}

var errNoMessage = errors.New("no message")

// copyMessage copies a message, so that caller and service do not share one.
func copyMessage(into, from any) error {
	target, ok := into.(proto.Message)
	source, also := from.(proto.Message)
	if !ok || !also {
		return fmt.Errorf("copy %T into %T: %w", from, into, errNoMessage)
	}
	proto.Reset(target)
	proto.Merge(target, source)
	return nil
}
