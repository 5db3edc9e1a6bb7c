package authority

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/retry"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// Joining says how a server joins a mesh whose authority is another server's: how a relay joins
// through its upstream.
type Joining struct {
	Token  func() (jointoken.Token, error) // called only for the first certificate
	Folder string                          // where the membership is kept
	Name   string
	Hosts  []string
	// Dial connects to the servers that have the authority.
	Dial    func(credentials.TransportCredentials) (*grpc.ClientConn, error)
	Changed func() // called after each change of the trust
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Joined is the membership of a server that joined.
type Joined struct {
	*membership.Membership

	joining Joining
	conn    *grpc.ClientConn
	cached  atomic.Pointer[cachedState]
}

// cachedState is the State made from a membership's state.
type cachedState struct {
	from *membership.State
	made *State
}

// Join restores the membership in the folder, or joins with the token. It waits for an upstream
// that is away.
func Join(ctx context.Context, how Joining) (*Joined, error) {
	o := membership.Options{
		Folder: how.Folder, Is: isServer, Spread: time.Second, Log: how.Log,
		Metrics: membership.Metrics{
			Registerer: how.Metrics, NotAfter: "pgmesh_mcp_server_identity_not_after_seconds", Renewals: "pgmesh_mcp_server_identity_renewals_total",
		},
	}
	m, err := membership.Open(o)
	if err != nil {
		if !errors.Is(err, membership.ErrNone) {
			how.Log.Warn("this server cannot use its former identity, and joins the mesh again", "folder", how.Folder, "error", err)
		}
		if m, err = how.first(ctx, o); err != nil {
			return nil, fmt.Errorf("join the mesh: %w", err)
		}
	}
	conn, err := how.Dial(m.Credentials(membership.IsProgram(identity.MCPServer)))
	if err != nil {
		return nil, err
	}
	return &Joined{Membership: m, joining: how, conn: conn}, nil
}

func isServer(id spiffeid.ID) error {
	if server, ok := identity.ServerOf(id); !ok || server.Program != identity.MCPServer {
		return fmt.Errorf("it is for %s, which is no mcp-server", id)
	}
	return nil
}

// first asks for the first certificate until the upstream answers.
func (how Joining) first(ctx context.Context, o membership.Options) (*membership.Membership, error) {
	token, err := how.Token()
	if err != nil {
		return nil, err
	}
	conn, err := how.Dial(credentials.NewTLS(membership.ByToken(token, identity.MCPServer)))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var joined *membership.Membership
	err = retry.Loop{Pauses: pauses, Failed: how.waits}.Until(ctx, func() error {
		var err error
		joined, err = membership.Join(ctx, o, how.askWith(conn, token.Text()))
		if code := status.Code(err); err != nil && code != codes.Unavailable && code != codes.DeadlineExceeded {
			return retry.Stop(err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	how.Log.Info("joined the mesh", "identity", joined.Current().ID, "until", joined.Current().NotAfter().UTC().Format(time.RFC3339))
	return joined, nil
}

// pauses are those between attempts to reach the upstream.
var pauses = retry.Pauses{First: 200 * time.Millisecond, Longest: 15 * time.Second}

func (how Joining) waits(err error, _ time.Duration) {
	how.Log.Warn("this server waits for its upstream, to become a member of the mesh", "error", status.Convert(err).Message())
}

// askWith returns a function that asks for a certificate: with a token for the first, and with ""
// to renew.
func (how Joining) askWith(conn grpc.ClientConnInterface, token string) membership.Ask {
	return func(ctx context.Context, csr []byte) (membership.Granted, error) {
		ctx, cancel := context.WithTimeout(ctx, certificateTimeout)
		defer cancel()
		answer, err := identityv1.NewAuthorityServiceClient(conn).Enroll(ctx, &identityv1.EnrollRequest{Csr: csr, Token: token, Name: how.Name, Hosts: how.Hosts})
		return membership.Granted{Chain: answer.GetChain(), Trust: answer.GetTrust()}, err
	}
}

// Run renews the certificate and follows the trust until the context ends.
func (j *Joined) Run(ctx context.Context) error {
	defer j.conn.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return j.Membership.Run(ctx, j.joining.askWith(j.conn, "")) })
	g.Go(func() error { return j.followTrust(ctx) })
	return g.Wait()
}

// followTrust watches the upstream's trust. While the upstream is away, what it sent last stays in
// force.
func (j *Joined) followTrust(ctx context.Context) error {
	return retry.Loop{
		Pauses: pauses,
		Reason: func(err error, _ time.Duration) {
			j.joining.Log.Warn("the upstream does not tell what the mesh trusts; what it told last stays in force", "error", status.Convert(err).Message())
		},
	}.Forever(ctx, func(works func()) error { return j.watch(ctx, works) })
}

func (j *Joined) watch(ctx context.Context, heard func()) error {
	stream, err := identityv1.NewTrustServiceClient(j.conn).WatchTrust(ctx, &identityv1.WatchTrustRequest{})
	if err != nil {
		return err
	}
	for {
		told, err := stream.Recv()
		if err != nil {
			return err
		}
		heard()
		if err := j.Learn(told.GetTrust()); err != nil {
			j.joining.Log.Error("what the upstream says that the mesh trusts cannot be used; what it told before stays in force", "error", err)
			continue
		}
		j.joining.Changed()
	}
}

// TLS returns the configuration of a listener.
func (j *Joined) TLS(protocols ...string) *tls.Config {
	return j.Membership.Server(tls.VerifyClientCertIfGiven, protocols...)
}

// Member returns what the bearer of a certificate may do: see [Authority.Member].
func (j *Joined) Member(id spiffeid.ID, chains [][]*x509.Certificate) ([]caller.Scope, error) {
	return j.state().member(id, chains)
}

// Server reports whether the caller is a server of the mesh: see [Authority.Server].
func (j *Joined) Server(ctx context.Context) bool { return isMember(ctx, j.Member) }

func (j *Joined) state() *State {
	now := j.Current()
	if h := j.cached.Load(); h != nil && h.from == now {
		return h.made
	}
	made := &State{trust: now.Trust.Message(), roots: now.Trust.Roots, revoked: revokedIn(now.Trust.Message())}
	j.cached.Store(&cachedState{now, made})
	return made
}
