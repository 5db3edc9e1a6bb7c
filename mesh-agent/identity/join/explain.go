package join

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/identity/refusal"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// RefusedError is discovery's refusal of a call.
type RefusedError struct {
	Reason           identityv1.Refusal
	Server           string
	failure, message string
}

// advice says what to do on this machine about a refusal.
var advice = map[identityv1.Refusal]string{
	identityv1.Refusal_REFUSAL_NO_CREDENTIAL: "the certificate of this machine did not reach it: is there something between that ends TLS?",
	identityv1.Refusal_REFUSAL_TOKEN_UNKNOWN: "have another made with mcp-client token create",
	identityv1.Refusal_REFUSAL_TOKEN_EXPIRED: "have another made with mcp-client token create",
	identityv1.Refusal_REFUSAL_TOKEN_REVOKED: "ask who gave it to you for another",
	identityv1.Refusal_REFUSAL_TOKEN_USED:    "if that was not you, somebody else has it: have it revoked, and another made",
	identityv1.Refusal_REFUSAL_CERTIFICATE:   "join again: mesh-agent join --again",
	identityv1.Refusal_REFUSAL_REVOKED:       "somebody has shut this machine out: mcp-client identity list tells who and why",
	identityv1.Refusal_REFUSAL_JWT_EXPIRED:   "have a new JSON web token written to the file",
	identityv1.Refusal_REFUSAL_JWT_ISSUER:    "the mesh has no rule for who issued the JSON web token",
	identityv1.Refusal_REFUSAL_JWT_AUDIENCE:  "have a JSON web token issued for the audience that the mesh wants",
	identityv1.Refusal_REFUSAL_JWT_CLAIMS:    "the JSON web token is genuine, and says of this machine what no rule of the mesh fits",
	identityv1.Refusal_REFUSAL_JWT_SIGNATURE: "the JSON web token was changed, or signed by somebody else than its issuer",
	identityv1.Refusal_REFUSAL_UNAVAILABLE:   "try again in a moment",
}

func (e *RefusedError) Error() string {
	text := fmt.Sprintf("discovery at %s %s: %s", e.Server, e.failure, e.message)
	if a := advice[e.Reason]; a != "" {
		text += " (" + a + ")"
	}
	return text
}

// ErrUnreachable means that nobody answers at discovery's address.
var ErrUnreachable = upstream.ErrUnreachable

// Passing reports whether the same call may succeed later without a change on this machine:
// discovery is away, cannot check join tokens, or has nothing to sign with yet.
func Passing(err error) bool {
	refused, _ := errors.AsType[*RefusedError](err)
	return errors.Is(err, ErrUnreachable) || refused != nil && refused.Reason == identityv1.Refusal_REFUSAL_UNAVAILABLE
}

// What the server failed to do, for error messages.
const (
	givesNoCertificate = "gives no certificate"
	tellsNoTrust       = "does not tell what the mesh trusts"
)

// explain turns a failed call into an error that names the server, what it did not do, and what to
// do about it.
func explain(err error, u *upstream.Upstream, failure string) error {
	if none, ok := errors.AsType[*upstream.UnavailableError](err); ok {
		return none.Reason
	}
	at, _ := u.Status()
	server := cmp.Or(at.Address, "one of its addresses")
	s := status.Convert(err)
	if reason := refusal.Of(err); reason != identityv1.Refusal_REFUSAL_UNSPECIFIED {
		return &RefusedError{reason, server, failure, s.Message()}
	}
	switch {
	case s.Code() == codes.Unimplemented:
		return fmt.Errorf("the server at %s %s: is it a discovery of this mesh, and this the address of its --listen?", server, failure)
	case s.Code() == codes.Unavailable:
		return fmt.Errorf("%w at %s: %s", ErrUnreachable, server, s.Message())
	case s.Code() == codes.DeadlineExceeded, errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w at %s: it has not answered in time; is there a firewall between?", ErrUnreachable, server)
	default:
		return fmt.Errorf("discovery at %s %s: %s", server, failure, s.Message())
	}
}
