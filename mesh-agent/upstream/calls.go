package upstream

import (
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Invoke makes a call on the connection that there is.
func (u *Upstream) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	for {
		l, err := u.link(ctx, waits(options))
		if err != nil {
			return err
		}
		if err := l.conn.Invoke(ctx, method, args, reply, here(options)...); !gone(err) {
			return err
		}
	}
}

// NewStream begins a stream on the connection that there is. It ends with the connection, which may be while discovery is well: when this
// machine's certificate is renewed.
func (u *Upstream) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	for {
		l, err := u.link(ctx, waits(options))
		if err != nil {
			return nil, err
		}
		s, err := l.conn.NewStream(ctx, d, method, here(options)...)
		switch {
		case err == nil:
			return &stream{s}, nil
		case !gone(err):
			return nil, err
		}
	}
}

// link is the connection that there is, or will be.
func (u *Upstream) link(ctx context.Context, wait bool) (*link, error) {
	for {
		u.mu.Lock()
		l, failed, changed := u.current, u.failed, u.changed
		u.mu.Unlock()
		switch {
		case l != nil:
			return l, nil
		case failed != nil && !wait:
			return nil, &UnavailableError{failed}
		}
		select {
		case u.wanted <- struct{}{}:
		default:
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if failed != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, &UnavailableError{failed}
			}
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
}

// waits tells whether a call is to wait for a connection.
func waits(options []grpc.CallOption) (wait bool) {
	for _, o := range options {
		if f, ok := o.(grpc.FailFastCallOption); ok {
			wait = !f.FailFast
		}
	}
	return wait
}

// here has a call not wait for a connection that does not come again.
func here(options []grpc.CallOption) []grpc.CallOption {
	return append(slices.Clip(options), grpc.WaitForReady(false))
}

// stream is one that ends with its connection. When that is lost, gRPC may say that somebody has canceled the stream, which nobody has.
type stream struct{ grpc.ClientStream }

// RecvMsg says what has ended the stream.
func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if s := status.Convert(err); s.Code() == codes.Canceled && s.Message() == closing {
		return status.Error(codes.Unavailable, "the connection to discovery has ended")
	}
	return err
}

// gone tells whether a call was not sent, because its connection had taken its last.
func gone(err error) bool {
	s := status.Convert(err)
	return s.Code() == codes.Unavailable && strings.Contains(s.Message(), errGone.Error()) ||
		s.Code() == codes.Canceled && s.Message() == closing
}

// closing is what gRPC says of a call that begins on a connection which has been closed.
var closing = status.Convert(grpc.ErrClientConnClosing).Message() //nolint:staticcheck // there is no other name for it

// UnavailableError is of a call for which there is no connection, in words that stand for themselves.
type UnavailableError struct{ Reason error }

func (e *UnavailableError) Error() string { return e.Reason.Error() }
func (e *UnavailableError) Unwrap() error { return e.Reason }

// GRPCStatus is what gRPC makes of it.
func (e *UnavailableError) GRPCStatus() *status.Status {
	return status.New(codes.Unavailable, e.Reason.Error())
}
