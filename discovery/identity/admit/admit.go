// Package admit admits members of the mesh, by their certificates.
//
// The handshake finds out what a certificate proves, and each call judges that again, by what the
// mesh trusts at that moment. So a client without a valid certificate gets an error in words from
// its call, instead of a broken handshake. A proxy may present only the node that its certificate
// proves. A stream ends when what admitted it is no longer true.
package admit

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"github.com/pgmesh/pgmesh/discovery/identity/trust"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/identity/refusal"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// Door admits members of the mesh.
type Door struct {
	trust    func() *trust.State
	refuse   func(ctx context.Context, node string, r *push.RefusalError) error
	outlived outlived
	sessions sessions
}

// NewDoor returns a door. What the mesh trusts may be nil before it is known: then nobody is
// admitted. Refuse is called with each refusal.
func NewDoor(
	trusted func() *trust.State, refuse func(ctx context.Context, node string, r *push.RefusalError) error, log *slog.Logger, metrics prometheus.Registerer,
) *Door {
	return &Door{trust: trusted, refuse: refuse, outlived: newOutlived(log, metrics), sessions: newSessions()}
}

// errNoTrust refuses everybody before it is known what the mesh trusts.
var errNoTrust = &push.RefusalError{
	Reason: "not_ready", Code: codes.Unavailable,
	Text: "discovery does not know yet whose certificates the mesh trusts: it waits for mcp-server",
}

// judge finds out who makes a call: a machine, or, if proxies is not set, possibly a server.
func judge(ctx context.Context, state *trust.State, proxies bool) (*trust.Member, error) {
	if proxies {
		return Machine(ctx, state)
	}
	return Member(ctx, state)
}

// refusalOf is what a refused caller is told.
func refusalOf(err error) *push.RefusalError {
	why, refused := errors.AsType[*trust.RefusedError](err)
	switch {
	case err == nil:
		return nil
	case !refused:
		return &push.RefusalError{Reason: "certificate", Code: codes.Unauthenticated, Text: err.Error()}
	case why.Reason == identityv1.Refusal_REFUSAL_NO_CREDENTIAL:
		return &push.RefusalError{Reason: "no_certificate", Code: codes.Unauthenticated, Text: why.Text}
	case why.Reason == identityv1.Refusal_REFUSAL_REVOKED:
		return &push.RefusalError{Reason: "revoked", Code: codes.PermissionDenied, Text: why.Text, Detailed: refusal.NewRevoked(why.Revocation, "%s", why.Text)}
	default:
		return &push.RefusalError{Reason: "certificate", Code: codes.PermissionDenied, Text: why.Text}
	}
}
