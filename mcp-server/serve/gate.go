package serve

import (
	"context"
	"strings"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/access"
	"github.com/pgmesh/pgmesh/internal/kit/inprocess"
	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/mcp-server/failure"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// apiPrefix begins the methods of APIs that need the database, or exist only at servers that have
// one.
const apiPrefix = "/pgmesh."

// needsNoDatabase reports whether a method works without the database: the mesh's trust, and the
// server's status, which people ask for most when something is wrong.
func needsNoDatabase(method string) bool {
	return strings.HasPrefix(method, "/pgmesh.identity.v1.TrustService/") || method == adminv1.AdminService_Status_FullMethodName
}

// calls are the interceptors for every call of an API, on any socket. The socket has identified the
// caller before.
type calls struct {
	unary   grpc.UnaryServerInterceptor
	stream  grpc.StreamServerInterceptor
	unknown func(ctx context.Context, method string) error
}

// newCalls returns interceptors that count calls, handle panics, refuse calls of APIs that cannot
// answer now, and ask the callers of all others.
func newCalls(measured *grpcprom.ServerMetrics, why func(ctx context.Context, method string) error) calls {
	closed := func(ctx context.Context, method string) error {
		if !strings.HasPrefix(method, apiPrefix) || needsNoDatabase(method) {
			return nil
		}
		return why(ctx, method)
	}
	return calls{
		unary: inprocess.ChainUnary(measured.UnaryServerInterceptor(), panics.Unary,
			func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
				if err := closed(ctx, info.FullMethod); err != nil {
					return nil, err
				}
				return next(ctx, req)
			}, access.Unary),
		stream: inprocess.ChainStream(measured.StreamServerInterceptor(), panics.Stream,
			func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
				if err := closed(stream.Context(), info.FullMethod); err != nil {
					return err
				}
				return next(srv, stream)
			}, access.Stream),
		unknown: closed,
	}
}

// options returns the options of a gRPC server.
func (c calls) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(c.unary),
		grpc.ChainStreamInterceptor(c.stream),
		// A relay does not register the APIs that need a database.
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			method, _ := grpc.MethodFromServerStream(stream)
			if err := c.unknown(stream.Context(), method); err != nil {
				return err
			}
			return status.Errorf(codes.Unimplemented, "unknown method %s", method)
		}),
	}
}

// newMeasured returns gRPC's usual metrics of calls, such as grpc_server_handled_total.
func newMeasured(metrics prometheus.Registerer) *grpcprom.ServerMetrics {
	m := grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram(
		grpcprom.WithHistogramBuckets([]float64{.001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30}),
	))
	metrics.MustRegister(m)
	return m
}

// closed refuses calls until the database was opened: before, its schema may be one that this
// program must not write to. During the first attempt to open it, calls wait.
func (d *database) closed(ctx context.Context, _ string) error {
	select {
	case <-d.opened:
	case <-d.publisher.FirstResult():
	case <-ctx.Done():
	}
	select {
	case <-d.opened:
		return nil
	default:
	}
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return failure.NoDatabase("the server cannot reach its database yet, so nothing can be read or changed here; " +
		"what is configured stays in force. Run it again later")
}
