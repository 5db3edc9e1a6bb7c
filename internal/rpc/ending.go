package rpc

import (
	"context"
	"errors"

	"google.golang.org/grpc"
)

// endedError marks the end that a stream was put to among the reasons for which a context may end.
type endedError struct{ err error }

func (e *endedError) Error() string { return e.err.Error() }
func (e *endedError) Unwrap() error { return e.err }

// End ends what [Handle] is doing for a stream, by the cancel function of its context. The error is
// what the client is told.
func End(cancel context.CancelCauseFunc, err error) { cancel(&endedError{err}) }

// Handle handles a stream until [End], after which nothing gets through, whether the handler
// listens to the context or not.
func Handle(ctx context.Context, srv any, stream grpc.ServerStream, handle grpc.StreamHandler) error {
	err := handle(srv, &endingStream{stream, ctx})
	if ended, ok := errors.AsType[*endedError](context.Cause(ctx)); ok {
		return ended.err
	}
	return err
}

type endingStream struct {
	grpc.ServerStream

	ctx context.Context //nolint:containedctx // gRPC asks a stream for its context
}

func (s *endingStream) Context() context.Context { return s.ctx }

// SendMsg lets nothing through after the end.
func (s *endingStream) SendMsg(m any) error {
	if err := context.Cause(s.ctx); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// RecvMsg lets nothing through after the end.
func (s *endingStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return context.Cause(s.ctx)
}
