package serve

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ours begins the methods of the APIs that need the database, or are only at the server that has it.
const ours = "/pgmesh."

// guard keeps calls from APIs that cannot answer now, and says why.
func guard(why func(context.Context) error) []grpc.ServerOption {
	refusal := func(ctx context.Context, method string) error {
		if !strings.HasPrefix(method, ours) {
			return nil
		}
		return why(ctx)
	}
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := refusal(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if err := refusal(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return next(srv, stream)
		}),
		// A relay has none of these.
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			method, _ := grpc.MethodFromServerStream(stream)
			if err := refusal(stream.Context(), method); err != nil {
				return err
			}
			return status.Errorf(codes.Unimplemented, "unknown method %s", method)
		}),
	}
}

// closed refuses calls until the database was opened: until then its schema may be one that this program must not write to. While the
// first attempt is under way, they wait.
func (d *database) closed(ctx context.Context) error {
	select {
	case <-d.opened:
	case <-d.publisher.Heard():
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
	return status.Error(codes.Unavailable, "the server cannot reach its database yet, so nothing can be read or changed here; "+
		"what is configured stays in force. Run it again later")
}
