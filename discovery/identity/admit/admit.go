// Package admit lets the members of the mesh in, by their certificates.
//
// What a certificate proves is found out in the handshake, and judged again for each call by what the mesh trusts at that moment. So who has no
// certificate, or one that does not count, is told so by a call, in words, and not by a broken handshake. A proxy may present only the node that
// its certificate proves; a stream ends when what let it in is no longer true.
package admit

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"github.com/pgmesh/pgmesh/discovery/identity/trust"
	"github.com/pgmesh/pgmesh/discovery/push"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// Door lets members in.
type Door struct {
	trust    func() *trust.State
	refuse   func(ctx context.Context, node string, r *push.RefusalError) error
	outlived outlived
	sessions sessions
}

// NewDoor returns a door. What the mesh trusts may be nil, as long as nobody knows: then nobody is let in. Refuse hears of each who is not.
func NewDoor(
	trusted func() *trust.State, refuse func(ctx context.Context, node string, r *push.RefusalError) error, log *slog.Logger, metrics prometheus.Registerer,
) *Door {
	return &Door{trust: trusted, refuse: refuse, outlived: newOutlived(log, metrics), sessions: newSessions()}
}

// errNoTrust is for the time before anybody knows what the mesh trusts.
var errNoTrust = &push.RefusalError{
	Reason: "not_ready", Code: codes.Unavailable,
	Text: "discovery does not know yet whose certificates the mesh trusts: it waits for mcp-server",
}

// judge tells who makes a call: a machine, or also a server where there need not be proxies.
func judge(ctx context.Context, state *trust.State, proxies bool) (*trust.Member, error) {
	if proxies {
		return Machine(ctx, state)
	}
	return Member(ctx, state)
}

// refusalOf is what is said to who is not let in.
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
		return &push.RefusalError{Reason: "revoked", Code: codes.PermissionDenied, Text: why.Text}
	default:
		return &push.RefusalError{Reason: "certificate", Code: codes.PermissionDenied, Text: why.Text}
	}
}
