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

	"github.com/pgmesh/pgmesh/internal/panics"
)

// open starts the handler of a stream. It runs until it returns, which it should when the context ends.
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

// stream is a call that is answered by a stream, as its client sees it.
type stream struct {
	request chan proto.Message
	answers chan proto.Message
	ended   chan struct{}
	err     error           // how the handler ended
	client  context.Context //nolint:containedctx // gRPC asks a stream for its context
	headers headers
}

func (s *stream) Context() context.Context { return s.client }
func (s *stream) CloseSend() error         { return nil }

// Header returns what the handler has set, as far as it has.
func (s *stream) Header() (metadata.MD, error) { return s.headers.get(), nil }

// Trailer is empty: nothing here sets one.
func (s *stream) Trailer() metadata.MD { return nil }

// SendMsg hands over the one request.
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

// RecvMsg waits for an answer. After the last it returns io.EOF, or the error of the handler.
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

// serverStream is the same call, as its handler sees it.
type serverStream struct {
	*stream

	ctx      context.Context //nolint:containedctx // gRPC asks a stream for its context
	received bool
}

func (s *serverStream) Context() context.Context       { return s.ctx }
func (s *serverStream) SetHeader(m metadata.MD) error  { return s.headers.SetHeader(m) }
func (s *serverStream) SendHeader(m metadata.MD) error { return s.headers.SendHeader(m) }
func (s *serverStream) SetTrailer(m metadata.MD)       { _ = s.headers.SetTrailer(m) }

// SendMsg waits until the client takes the answer.
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

// RecvMsg returns the request, and then that there is no more.
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

// headers are what a handler sends ahead of its answer.
type headers struct {
	method string
	mu     sync.Mutex
	ahead  metadata.MD
}

// Method is the full name of what is called.
func (h *headers) Method() string { return h.method }

// SetHeader adds to what is sent ahead.
func (h *headers) SetHeader(m metadata.MD) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead = metadata.Join(h.ahead, m)
	return nil
}

// SendHeader is the same here: what is set can be seen at once.
func (h *headers) SendHeader(m metadata.MD) error { return h.SetHeader(m) }

// SetTrailer leaves out what comes after an answer: protocols that are translated have no place for it.
func (h *headers) SetTrailer(metadata.MD) error { return nil }

func (h *headers) get() metadata.MD {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ahead.Copy()
}

// fill hands over what a caller has asked for.
func (h *headers) fill(opts []grpc.CallOption) {
	for _, o := range opts {
		if wanted, is := o.(grpc.HeaderCallOption); is {
			*wanted.HeaderAddr = h.get()
		}
	}
}

var errNoMessage = errors.New("no message")

// copyMessage gives each side a message of its own.
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
