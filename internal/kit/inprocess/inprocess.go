// Package inprocess calls the services of a gRPC server within the process, without a socket. The
// service runs in the caller's context, so it knows what the caller's context says about the
// caller.
//
// It is for gateways that translate other protocols into gRPC calls. It supports unary calls and
// server streams.
package inprocess

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Server is both ends: services are registered with it and called through it. Register all services
// before the first call.
type Server struct {
	// Unknown returns the error for a call to an unknown service. Nil, or a nil error, means
	// Unimplemented.
	Unknown func(ctx context.Context, fullMethod string) error

	unary    grpc.UnaryServerInterceptor
	stream   grpc.StreamServerInterceptor
	services map[string]*service
	running  sync.WaitGroup
}

type service struct {
	desc *grpc.ServiceDesc
	impl any
}

// New returns a server without services. Calls go through the interceptors; either may be nil.
func New(unary grpc.UnaryServerInterceptor, stream grpc.StreamServerInterceptor) *Server {
	return &Server{unary: unary, stream: stream, services: map[string]*service{}}
}

// RegisterService adds a service, as generated code does.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.services[desc.ServiceName] = &service{desc, impl}
}

// Wait returns when no stream's handler runs any more. Each ends soon after its context.
func (s *Server) Wait() { s.running.Wait() }

func (s *Server) find(ctx context.Context, fullMethod string) (*service, string, error) {
	name, method, _ := strings.Cut(strings.TrimPrefix(fullMethod, "/"), "/")
	found, known := s.services[name]
	if known {
		return found, method, nil
	}
	if s.Unknown != nil {
		if err := s.Unknown(ctx, fullMethod); err != nil {
			return nil, "", err
		}
	}
	return nil, "", status.Errorf(codes.Unimplemented, "unknown service %s", name)
}

// Invoke makes a unary call.
func (s *Server) Invoke(ctx context.Context, fullMethod string, args, reply any, opts ...grpc.CallOption) error {
	of, name, err := s.find(ctx, fullMethod)
	if err != nil {
		return err
	}
	for i := range of.desc.Methods {
		if of.desc.Methods[i].MethodName != name {
			continue
		}
		heads := &headers{method: fullMethod}
		ctx := grpc.NewContextWithServerTransportStream(incoming(ctx), heads)
		answer, err := of.desc.Methods[i].Handler(of.impl, ctx, func(into any) error { return copyMessage(into, args) }, s.unary)
		heads.fill(opts)
		if err != nil {
			return statusOf(err)
		}
		return copyMessage(reply, answer)
	}
	return status.Errorf(codes.Unimplemented, "unknown method %s", fullMethod)
}

// NewStream opens a server stream.
func (s *Server) NewStream(ctx context.Context, _ *grpc.StreamDesc, fullMethod string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	of, name, err := s.find(ctx, fullMethod)
	if err != nil {
		return nil, err
	}
	for i := range of.desc.Streams {
		if desc := &of.desc.Streams[i]; desc.StreamName == name {
			if desc.ClientStreams {
				return nil, status.Errorf(codes.Unimplemented, "%s takes a stream, which cannot be sent in process", fullMethod)
			}
			return s.open(ctx, of, desc, fullMethod), nil
		}
	}
	return nil, status.Errorf(codes.Unimplemented, "unknown method %s", fullMethod)
}

// Address is the peer address that services see for calls in process, unless the caller's context
// has a peer.
type Address struct{}

// Network implements net.Addr.
func (Address) Network() string { return "inprocess" }

func (Address) String() string { return "in process" }

var _ net.Addr = Address{}

// incoming turns the caller's outgoing metadata into the service's incoming metadata.
func incoming(ctx context.Context) context.Context {
	sent, _ := metadata.FromOutgoingContext(ctx)
	ctx = metadata.NewOutgoingContext(metadata.NewIncomingContext(ctx, sent.Copy()), metadata.MD{})
	if _, known := peer.FromContext(ctx); known {
		return ctx
	}
	return peer.NewContext(ctx, &peer.Peer{Addr: Address{}})
}

// statusOf converts a handler's error as a gRPC connection would.
func statusOf(err error) error {
	if _, is := status.FromError(err); is {
		return err
	}
	if st := status.FromContextError(err); st.Code() != codes.Unknown {
		return st.Err()
	}
	return status.Error(codes.Unknown, fmt.Sprint(err))
}
