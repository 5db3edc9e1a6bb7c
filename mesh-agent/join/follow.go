package join

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/pgmesh/pgmesh/internal/membership"
	"github.com/pgmesh/pgmesh/mesh-agent/upstream"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

const (
	// The pauses before what the mesh trusts is asked for again, of a discovery that is away.
	followFirst = 500 * time.Millisecond
	followLast  = 30 * time.Second
)

// Follow takes over what a mesh trusts, as its discovery tells it, until the context ends.
func Follow(ctx context.Context, u *upstream.Upstream, m *membership.Membership, log *slog.Logger) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = followFirst, followLast
	said := ""
	for {
		heard, err := follow(ctx, u, m, log)
		if heard {
			pauses.Reset()
			said = ""
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if text := err.Error(); text != said && !heard { // a stream that ends begins again
			log.Warn("changes of what the mesh trusts do not get here", "error", err)
			said = text
		}
		select {
		case <-time.After(pauses.NextBackOff()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follow goes on as long as one stream does.
func follow(ctx context.Context, u *upstream.Upstream, m *membership.Membership, log *slog.Logger) (heard bool, err error) {
	stream, err := identityv1.NewTrustServiceClient(u).WatchTrust(ctx, &identityv1.WatchTrustRequest{})
	for err == nil {
		var told *identityv1.WatchTrustResponse
		if told, err = stream.Recv(); err != nil {
			break
		}
		heard = true
		if wrong := m.Learn(told.GetTrust()); wrong != nil {
			log.Error("what discovery says of the mesh's trust cannot be used, and what was trusted before stays", "error", wrong)
		}
	}
	return heard, explain(err, u, tellsNoTrust)
}
