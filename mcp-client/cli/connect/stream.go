package connect

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"

	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// keepaliveInterval detects a lost server while it is busy.
const keepaliveInterval = 15 * time.Second

// Stream opens the admin API for a call without a time limit.
func (s *Server) Stream(ctx context.Context, call func(context.Context, adminv1.AdminServiceClient) error, more ...grpc.DialOption) error {
	return s.open(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		return call(ctx, adminv1.NewAdminServiceClient(conn))
	}, more...)
}

// open opens a connection for a call without a time limit.
func (s *Server) open(ctx context.Context, call func(context.Context, grpc.ClientConnInterface) error, more ...grpc.DialOption) error {
	conn, err := s.connect(maxAnswerSize, append(more, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveInterval, Timeout: s.Timeout}))...)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.await(ctx, conn); err != nil {
		return err
	}
	return call(ctx, conn)
}

// await waits until the connection succeeds or fails. The reason of a failure comes from the call.
func (s *Server) await(ctx context.Context, conn *grpc.ClientConn) error {
	within, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready && state != connectivity.TransientFailure; state = conn.GetState() {
		if !conn.WaitForStateChange(within, state) {
			return cmp.Or(ctx.Err(), s.Silent())
		}
	}
	return nil
}

// maxAnswerSize bounds one message of a stream.
const maxAnswerSize = 64 << 20
