package serve

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// hold makes MCP streams, of both generations, wait until there is something to serve. The wait
// ends with the server.
func (s *server) hold(stopping context.Context) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if strings.HasPrefix(info.FullMethod, apiPrefix) {
			return next(srv, stream)
		}
		ctx, cancel := context.WithCancel(stream.Context())
		defer cancel()
		defer context.AfterFunc(stopping, cancel)()
		if err := s.publisher.Await(ctx); err != nil {
			if stopping.Err() != nil {
				return status.Error(codes.Unavailable, "the server is shutting down")
			}
			return err
		}
		return next(srv, stream)
	}
}
