package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/internal/dial"
	"github.com/pgmesh/pgmesh/internal/kit/retry"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// become makes discovery the member that it was, or, with its join token, a new one.
func (s *self) become(ctx context.Context, metrics prometheus.Registerer) error {
	// Renew early. Discoveries are few, and machines depend on them: a stolen root must be replaced
	// within seconds.
	o := membership.Options{
		Folder: s.options.StateDir, Is: isDiscovery, Spread: time.Second, Log: s.log,
		Metrics: membership.Metrics{
			Registerer: metrics, NotAfter: "pgmesh_discovery_identity_not_after_seconds", Renewals: "pgmesh_discovery_identity_renewals_total",
		},
	}
	m, err := membership.Open(o)
	switch {
	case err == nil:
		s.membership = m
		return nil
	case s.options.JoinTokenFile == "":
		return fmt.Errorf("--state-dir %s: %w; give a token with --join-token-file: mcp-server token create NAME --for discovery makes one", s.options.StateDir, err)
	case !errors.Is(err, membership.ErrNone):
		s.log.Warn("discovery cannot use its former identity, and joins the mesh again", "folder", s.options.StateDir, "error", err)
	}
	s.membership, err = s.join(ctx, o)
	return err
}

func isDiscovery(id spiffeid.ID) error {
	if server, ok := identity.ServerOf(id); !ok || server.Program != identity.Discovery {
		return fmt.Errorf("it is for %s, which is no discovery", id)
	}
	return nil
}

// join has mcp-server give discovery its first certificate. It waits for a server that is away.
func (s *self) join(ctx context.Context, o membership.Options) (*membership.Membership, error) {
	text, err := os.ReadFile(s.options.JoinTokenFile)
	if err != nil {
		return nil, fmt.Errorf("--join-token-file: %w", err)
	}
	token, err := jointoken.Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("--join-token-file %s: %w", s.options.JoinTokenFile, err)
	}
	conn, err := dialServers(s.servers, grpc.WithTransportCredentials(credentials.NewTLS(membership.ByToken(token, identity.MCPServer))))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var joined *membership.Membership
	err = retry.Loop{
		Pauses: retry.Pauses{First: 500 * time.Millisecond, Longest: 15 * time.Second}, Failed: s.waits,
	}.Until(ctx, func() error {
		var err error
		joined, err = membership.Join(ctx, o, s.enroll(conn, token.Text()))
		if code := status.Code(err); err != nil && code != codes.Unavailable && code != codes.DeadlineExceeded {
			return retry.Stop(fmt.Errorf("join the mesh: %w", err))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s.log.Info("joined the mesh", "identity", joined.Current().ID.String(), "until", joined.Current().NotAfter())
	return joined, nil
}

func (s *self) waits(err error, again time.Duration) {
	s.log.Warn("discovery waits for mcp-server, to become a member of the mesh; until then it serves nobody", "error", err, "again_in", again.Round(time.Millisecond))
}

// enrollWithin bounds an attempt.
const enrollWithin = 20 * time.Second

// enroll asks mcp-server for discovery's certificate: the first with a token, later ones without.
func (s *self) enroll(conn grpc.ClientConnInterface, token string) membership.Ask {
	name, hosts := s.options.names()
	return func(ctx context.Context, csr []byte) (membership.Granted, error) {
		ctx, cancel := context.WithTimeout(ctx, enrollWithin)
		defer cancel()
		answer, err := identityv1.NewAuthorityServiceClient(conn).Enroll(ctx, &identityv1.EnrollRequest{Csr: csr, Token: token, Name: name, Hosts: hosts})
		if err != nil {
			return membership.Granted{}, err
		}
		return membership.Granted{Chain: answer.GetChain(), Trust: answer.GetTrust()}, nil
	}
}

// proves says who discovery is to mcp-server: nobody, if its certificates come from files.
func (s *self) proves() dial.Identity {
	if s.membership == nil {
		return dial.Nobody
	}
	return dial.Member(s.membership.Credentials(membership.IsProgram(identity.MCPServer)))
}

// dialServers connects to the first of several servers that answers.
func dialServers(addresses []string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	conn, err := dial.Any(addresses, options...)
	if err != nil {
		return nil, fmt.Errorf("--mcp %w", err)
	}
	return conn, nil
}
