package caller

import (
	"context"
	"errors"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpccredentials "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/rpc"
)

// Unary authenticates unary calls.
func (g *Guard) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	c, err := presented(ctx)
	if err != nil {
		return nil, err
	}
	c.public = g.cfg.Public(info.FullMethod)
	who, err := g.admit(ctx, c)
	if err != nil {
		return nil, err
	}
	answer, err := handle(With(ctx, who), req)
	return answer, StatusOf(err)
}

// Stream authenticates streams. A stream may stay open for days; it ends once its caller would no
// longer be let in.
func (g *Guard) Stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx, s, err := g.enter(stream.Context())
	if err != nil {
		return err
	}
	defer g.finish(s)
	return StatusOf(rpc.Handle(ctx, srv, stream, handle))
}

// enter lets a stream in. It is a function of its own so that its variables do not stay on the
// stack for the life of the stream.
func (g *Guard) enter(ctx context.Context) (context.Context, *session, error) {
	c, err := presented(ctx)
	if err != nil {
		return nil, nil, err
	}
	who, err := g.admit(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	ctx, s := g.begin(ctx, c, who)
	return ctx, s, nil
}

// StatusOf turns a DeniedError into a gRPC status and returns other errors unchanged.
func StatusOf(err error) error {
	if denied, ok := errors.AsType[*DeniedError](err); ok {
		return status.Error(codes.PermissionDenied, denied.Error())
	}
	return err
}

// presented returns the credentials that a call came with.
func presented(ctx context.Context) (credentials, error) {
	var c credentials
	if p, ok := peer.FromContext(ctx); ok {
		c.address = host(p.Addr)
		if t, ok := p.AuthInfo.(grpccredentials.TLSInfo); ok {
			c.certify(&t.State)
		}
	}
	m, _ := metadata.FromIncomingContext(ctx)
	return c, c.present(m.Get("authorization"))
}

// present adds the token of the authorization header.
func (c *credentials) present(headers []string) error {
	if len(headers) == 0 {
		return nil
	}
	scheme, secret, _ := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "bearer") || secret == "" {
		return status.Error(codes.Unauthenticated, "the header authorization has to be once in the call and of the form: Bearer TOKEN")
	}
	c.bearer, c.token = true, HashOf(strings.TrimSpace(secret))
	return nil
}

func host(a net.Addr) string {
	if a == nil {
		return ""
	}
	h, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return h
}
