package caller

import (
	"context"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/pgmesh/pgmesh/internal/limits"
	"github.com/pgmesh/pgmesh/internal/panics"
)

// Tap turns calls away by their headers: gRPC would put the whole message together first. It asks nobody, for the connection waits meanwhile. So a
// token that is not known yet passes, and who presents it stays a stranger until the call is looked at.
func (g *Guard) Tap(ctx context.Context, info *tap.Info) (_ context.Context, err error) {
	defer panics.Catch("call", &err)
	c, err := presentedIn(ctx, info.Header)
	if err != nil {
		return nil, err
	}
	c.public = g.cfg.Public != nil && g.cfg.Public(info.FullMethodName)
	if c.bearer {
		if _, err := g.cfg.Tokens.Held(c.token); err != nil {
			return ctx, nil // it is looked for when the call begins
		}
	}
	who, err := g.identify(ctx, c, func(_ context.Context, hash TokenHash) (Token, error) { return g.cfg.Tokens.Held(hash) })
	if err != nil {
		g.turnedAway(c, err)
		return nil, status.Convert(StatusOf(err)).Err()
	}
	vouch(ctx, who)
	return ctx, nil
}

// vouch lifts what bounds the connection of a caller, if there is something that it may do.
func vouch(ctx context.Context, who *Caller) {
	if p, ok := peer.FromContext(ctx); ok && len(who.scopes) > 0 {
		limits.Vouch(p.Addr)
	}
}

func presentedIn(ctx context.Context, header metadata.MD) (credentials, error) {
	return presented(metadata.NewIncomingContext(ctx, header))
}
