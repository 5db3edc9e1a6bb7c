package join

import (
	"context"
	"log/slog"
	"time"

	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// Follow watches the mesh's trust and applies each change to m, until the context ends. It logs an
// error once, until the next message arrives or the error changes.
func Follow(ctx context.Context, u *upstream.Upstream, m *membership.Membership, log *slog.Logger) error {
	return retry.Loop{
		Pauses: retry.Pauses{First: 500 * time.Millisecond, Longest: 30 * time.Second},
		Reason: func(err error, _ time.Duration) {
			log.Warn("changes of what the mesh trusts do not get here", "error", err)
		},
	}.Forever(ctx, func(func()) error {
		received, err := follow(ctx, u, m, log)
		if received {
			return nil // the end of a working stream is normal
		}
		return err
	})
}

// follow applies the messages of one stream; received reports whether there was any.
func follow(ctx context.Context, u *upstream.Upstream, m *membership.Membership, log *slog.Logger) (received bool, err error) {
	stream, err := identityv1.NewTrustServiceClient(u).WatchTrust(ctx, &identityv1.WatchTrustRequest{})
	for err == nil {
		var message *identityv1.WatchTrustResponse
		if message, err = stream.Recv(); err != nil {
			break
		}
		received = true
		if wrong := m.Learn(message.GetTrust()); wrong != nil {
			log.Error("what discovery says of the mesh's trust cannot be used, and what was trusted before stays", "error", wrong)
		}
	}
	return received, explain(err, u, tellsNoTrust)
}
