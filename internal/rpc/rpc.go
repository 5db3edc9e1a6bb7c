// Package rpc sets gRPC servers up as every program here needs them: for streams that stay open for
// days.
package rpc

import (
	"context"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
)

const (
	// Istiod pings after 30 s of silence, and gRPC's own minimum of five minutes would cut it off
	// for that.
	clientsMayPingEvery = 10 * time.Second
	// pingAfter finds machines that vanished without a word.
	pingAfter   = 30 * time.Second
	pingTimeout = 10 * time.Second
	// readBuffer is small: clients mostly acknowledge, and over TLS each connection has a buffer of
	// its own for as long as it lives.
	readBuffer = 4 << 10
	// What a client may send before it is read. Windows that gRPC adapts cost a ping, to be written
	// and answered, for nearly every message that comes alone, as all acknowledgements do. A
	// stream's is less than a stranger may send in all (internal/limits): a message that is too
	// large is refused with a reason, before the connection is cut. More comes only to who reads a
	// message, for which a place is sought then (limits.BoundUnfinished).
	streamWindow     = 128 << 10
	connectionWindow = 1 << 20
	// stopWithin bounds a graceful stop. Streams have been told to end by then; what remains are
	// calls that hang.
	stopWithin = 5 * time.Second
)

// NewServer returns a server without services. It outlives handlers that panic.
func NewServer(opts ...grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(slices.Concat(panics.ServerOptions(), []grpc.ServerOption{
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: clientsMayPingEvery, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.ReadBufferSize(readBuffer),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connectionWindow),
		grpc.MaxRecvMsgSize(64 << 20), // an apply of a whole mesh, and the versions that a reconnecting client names
	}, opts)...)
}

// renewWithin is how long a connection is used for new calls whose client shows a certificate that
// it renews.
const renewWithin = 10 * time.Minute

// Renewing has clients connect anew now and then, with the certificate that they have by then.
// Streams stay where they are.
func Renewing() grpc.ServerOption {
	return grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout, MaxConnectionAge: renewWithin})
}

// Serve answers until the context ends, then calls drain, which ends streams that would stay for
// ever, and lets calls finish.
func Serve(ctx context.Context, s *grpc.Server, l net.Listener, drain func()) error {
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		drain()
		hang := time.AfterFunc(stopWithin, s.Stop)
		defer hang.Stop()
		s.GracefulStop()
	})
	err := s.Serve(l)
	if stop() { // the server failed by itself: nothing to drain
		s.Stop()
		return err
	}
	<-stopped
	return err
}
