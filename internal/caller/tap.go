package caller

import (
	"context"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/limits"
)

// Tap refuses calls by their headers, before gRPC receives the whole message. It blocks the
// connection, so it does not wait for a token lookup: an unknown token passes, and its bearer stays
// unauthenticated until the call begins.
func (g *Guard) Tap(ctx context.Context, info *tap.Info) (_ context.Context, err error) {
	defer panics.Catch("call", &err)
	c, err := presentedIn(ctx, info.Header)
	if err != nil {
		return nil, err
	}
	c.public = g.cfg.Public(info.FullMethodName)
	if c.bearer {
		if _, err := g.cfg.Tokens.Held(c.token); err != nil {
			return ctx, nil // Unary or Stream looks it up
		}
	}
	who, err := g.identify(ctx, c, func(_ context.Context, hash TokenHash) (Token, error) { return g.cfg.Tokens.Held(hash) })
	if err != nil {
		g.logRefusal(c, err)
		return nil, status.Convert(StatusOf(err)).Err()
	}
	vouch(ctx, who)
	return ctx, nil
}

// vouch lifts the limits for strangers from the caller's connection, if the caller has any scope.
func vouch(ctx context.Context, who *Caller) {
	if p, ok := peer.FromContext(ctx); ok && len(who.scopes) > 0 {
		limits.Vouch(p.Addr)
	}
}

func presentedIn(ctx context.Context, header metadata.MD) (credentials, error) {
	return presented(metadata.NewIncomingContext(ctx, header))
}
