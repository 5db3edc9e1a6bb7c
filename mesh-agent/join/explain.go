package join

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/membership"
	"github.com/pgmesh/pgmesh/internal/refusal"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// RefusedError is what discovery says to who is given no certificate.
type RefusedError struct {
	Reason       identityv1.Refusal
	Server       string
	undone, said string
}

// advice is what somebody on the machine may do about a refusal.
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
	text := fmt.Sprintf("discovery at %s %s: %s", e.Server, e.undone, e.said)
	if a := advice[e.Reason]; a != "" {
		text += " (" + a + ")"
	}
	return text
}

// ErrUnreachable is of a discovery that nobody answers at.
var ErrUnreachable = errors.New("discovery cannot be reached")

// Passing tells of an error whether the same may succeed later, with nothing changed here: discovery is away, or who checks join tokens for it, or
// it has nothing to sign with yet.
func Passing(err error) bool {
	refused, _ := errors.AsType[*RefusedError](err)
	return errors.Is(err, ErrUnreachable) || refused != nil && refused.Reason == identityv1.Refusal_REFUSAL_UNAVAILABLE
}

// What a server does not do when a call fails.
const (
	givesNoCertificate = "gives no certificate"
	tellsNoTrust       = "does not tell what the mesh trusts"
)

// explain says why a call failed, by what the server does not do because of that, and what to do about it.
func (c *connection) explain(err error, undone string) error {
	if reason := c.wrongServer(); reason != nil {
		return reason
	}
	s := status.Convert(err)
	if reason := refusal.Of(err); reason != identityv1.Refusal_REFUSAL_UNSPECIFIED {
		return &RefusedError{reason, c.server, undone, s.Message()}
	}
	switch {
	case s.Code() == codes.Unimplemented:
		return fmt.Errorf("the server at %s %s: is it a discovery of this mesh, and this the address of its --listen?", c.server, undone)
	case strings.Contains(s.Message(), "first record does not look like a TLS handshake"):
		return fmt.Errorf("the server at %s does not speak TLS: is it a discovery that runs with --insecure?", c.server)
	case s.Code() == codes.Unavailable:
		return fmt.Errorf("%w at %s: %s", ErrUnreachable, c.server, s.Message())
	case s.Code() == codes.DeadlineExceeded, errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w at %s: it has not answered in time; is there a firewall between?", ErrUnreachable, c.server)
	default:
		return fmt.Errorf("discovery at %s %s: %s", c.server, undone, s.Message())
	}
}

// wrongServer is why the server was not spoken to.
func (c *connection) wrongServer() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.reason == nil:
		return nil
	case errors.Is(c.reason, membership.ErrClock):
		return fmt.Errorf("the server at %s is not trusted: %w Set the clock of this machine, or of the other", c.server, c.reason)
	case errors.Is(c.reason, membership.ErrUntrusted):
		return fmt.Errorf("the server at %s is not trusted: %w; it is of another mesh, or the mesh's roots have changed while this machine was away: "+
			"then join again with a new token: mesh-agent join --again", c.server, c.reason)
	default:
		return fmt.Errorf("the server at %s is not trusted: %w", c.server, c.reason)
	}
}
