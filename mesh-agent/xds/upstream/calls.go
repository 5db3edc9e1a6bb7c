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

// Invoke makes a call on the current connection. It repeats the call on the next one if the
// connection took no new calls any more.
func (u *Upstream) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	for {
		l, err := u.link(ctx, waitsForReady(options))
		if err != nil {
			return err
		}
		if err := l.conn.Invoke(ctx, method, args, reply, failFast(options)...); !notSent(err) {
			u.judge(l, err)
			return err
		}
	}
}

// NewStream opens a stream on the current connection and ends with it. A connection may end while
// discovery is well, for example when the machine's certificate is renewed.
func (u *Upstream) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	for {
		l, err := u.link(ctx, waitsForReady(options))
		if err != nil {
			return nil, err
		}
		s, err := l.conn.NewStream(ctx, d, method, failFast(options)...)
		switch {
		case err == nil:
			return &stream{s, u, l}, nil
		case !notSent(err):
			return nil, err
		}
	}
}

// link returns the current connection, or waits for one. Unless wait is set, it fails as soon as
// every replica was tried in vain.
func (u *Upstream) link(ctx context.Context, wait bool) (*link, error) {
	for {
		u.mu.Lock()
		l, failed, changed := u.current, u.connectErr, u.changed
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

// waitsForReady reports whether a call is to wait for a connection (grpc.WaitForReady).
func waitsForReady(options []grpc.CallOption) (wait bool) {
	for _, o := range options {
		if f, ok := o.(grpc.FailFastCallOption); ok {
			wait = !f.FailFast
		}
	}
	return wait
}

// failFast stops a call from waiting for a connection that is never made again.
func failFast(options []grpc.CallOption) []grpc.CallOption {
	return append(slices.Clip(options), grpc.WaitForReady(false))
}

// stream translates the error of a lost connection: gRPC may report it as Canceled, although nobody
// canceled the stream.
type stream struct {
	grpc.ClientStream

	upstream *Upstream
	link     *link
}

// RecvMsg returns Unavailable when the connection has ended.
func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.upstream.judge(s.link, err)
	if s := status.Convert(err); s.Code() == codes.Canceled && s.Message() == closingText {
		return status.Error(codes.Unavailable, "the connection to discovery has ended")
	}
	return err
}

// notSent reports whether a call was not sent because its connection took no new calls.
func notSent(err error) bool {
	s := status.Convert(err)
	return s.Code() == codes.Unavailable && strings.Contains(s.Message(), errGone.Error()) ||
		s.Code() == codes.Canceled && s.Message() == closingText
}

// closingText is gRPC's message for a call on a closed connection.
var closingText = status.Convert(grpc.ErrClientConnClosing).Message() //nolint:staticcheck // there is no other name for it

// UnavailableError means that there is no connection for a call. Its reason needs no further
// context.
type UnavailableError struct{ Reason error }

func (e *UnavailableError) Error() string { return e.Reason.Error() }
func (e *UnavailableError) Unwrap() error { return e.Reason }

// GRPCStatus makes status.Convert return Unavailable.
func (e *UnavailableError) GRPCStatus() *status.Status {
	return status.New(codes.Unavailable, e.Reason.Error())
}
