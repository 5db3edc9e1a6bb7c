package inprocess

import (
	"context"
	"slices"

	"google.golang.org/grpc"
)

// ChainUnary chains interceptors, the first outermost, as gRPC does.
func ChainUnary(chain ...grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		for _, outer := range slices.Backward(chain) {
			inner := handle
			handle = func(ctx context.Context, req any) (any, error) { return outer(ctx, req, info, inner) }
		}
		return handle(ctx, req)
	}
}

// ChainStream is ChainUnary for streams.
func ChainStream(chain ...grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		for _, outer := range slices.Backward(chain) {
			inner := handle
			handle = func(srv any, stream grpc.ServerStream) error { return outer(srv, stream, info, inner) }
		}
		return handle(srv, stream)
	}
}
