package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/dial"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mcp-server/admin"
	"github.com/pgmesh/pgmesh/mcp-server/identity/authority"
	"github.com/pgmesh/pgmesh/mcp-server/relay"
)

// Upstream says which MCP servers a relay follows instead of a database, and how it connects to
// them.
type Upstream struct {
	Addresses []string
	Dial      dial.Options // without Plaintext, which is the server's own
	// JoinTokenFile has the token with which the relay first joins its upstream's mesh. Without it,
	// the relay does not join.
	JoinTokenFile string
}

// Flags declares the flags of a relay.
func (u *Upstream) Flags(f *pflag.FlagSet) {
	f.StringSliceVar(&u.Addresses, "upstream", nil,
		"relay another MCP server, host:port, in place of a database; of several, separated by commas or in flags of their own, one is followed and the others stand by")
	u.Dial.Flags(f, "upstream-")
	f.StringVar(&u.JoinTokenFile, "upstream-join-token-file", "", "file with the token to become a member of the upstream's mesh with, at the first start, in place of certificates of files; "+
		"mcp-server token create NAME --for mcp-server makes one")
}

// checkSource returns an error unless there is exactly one source.
func (o *Options) checkSource() error {
	switch {
	case o.Database == "" && len(o.Upstream.Addresses) == 0 && len(o.Registries.URLs) > 0:
		return o.checkBridge()
	case o.Database == "" && len(o.Upstream.Addresses) == 0:
		return errors.New("--database is missing: the URL of the Postgres database that holds the mesh, such as postgres://user@host/mesh. " +
			"Or give --upstream, to relay another server, or --registry, to serve what registries have alone")
	case len(o.Upstream.Addresses) == 0 && o.Upstream.JoinTokenFile != "":
		return errors.New("--upstream-join-token-file is for a relay: give --upstream")
	case len(o.Upstream.Addresses) == 0:
		return nil
	case o.Database != "":
		return errors.New("--database and --upstream exclude each other: a server reads the database, or relays another server that does")
	case o.Upstream.JoinTokenFile != "" && o.Upstream.Dial.TLS.Given():
		return errors.New("--upstream-join-token-file and the flags for TLS with the upstream exclude each other: a member of the mesh has its certificate from there")
	case o.Upstream.JoinTokenFile != "" && o.StateDir == "":
		return errors.New("--upstream-join-token-file: the certificate that it is used up for has to be kept: give --state-dir")
	case o.Replica != "" || o.Migrate:
		return errors.New("--replica and --migrate are about a database, and a relay has none: leave them out, or --upstream")
	}
	for _, address := range o.Upstream.Addresses {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("--upstream %s: expected host:port: %w", address, err)
		}
	}
	return nil
}

// upstream is the source of a relay. Its only APIs are MCP and its status.
type upstream struct {
	*server
	relay  *relay.Relay
	joined *authority.Joined // nil if it has not joined the mesh
}

func (s *server) upstream(ctx context.Context) (source, error) {
	o := s.options
	u := &upstream{server: s}
	how := o.Upstream.Dial
	if o.Upstream.JoinTokenFile != "" {
		var err error
		if u.joined, err = s.join(ctx); err != nil {
			return nil, err
		}
		how.Identity = dial.Member(u.joined.Credentials(membership.IsProgram(identity.MCPServer)))
	}
	if how.Plaintext = o.Plaintext; how.TLS.Given() || how.Identity != dial.Nobody {
		how.Plaintext = listen.Plaintext{} // that one is about connections to this server
	}
	connection, err := how.To(o.Log, o.Upstream.Addresses...)
	if err != nil {
		return nil, fmt.Errorf("--upstream: %w", err)
	}
	relaying := relay.Options{Upstreams: o.Upstream.Addresses, DialOptions: connection.DialOptions()}
	if s.passage != nil {
		relaying.Published = s.passage.Relayed
	}
	u.relay = relay.New(s.publisher, o.Log, s.metrics, relaying)
	return u, nil
}

// identityFolder is where a relay keeps its membership, in its state folder.
const identityFolder = "identity"

// join makes the relay a member of its upstream's mesh.
func (s *server) join(ctx context.Context) (*authority.Joined, error) {
	o := s.options
	return authority.Join(ctx, authority.Joining{
		Token: func() (jointoken.Token, error) {
			text, err := os.ReadFile(o.Upstream.JoinTokenFile)
			if err != nil {
				return jointoken.Token{}, fmt.Errorf("--upstream-join-token-file: %w", err)
			}
			token, err := jointoken.Parse(string(text))
			if err != nil {
				return token, fmt.Errorf("--upstream-join-token-file %s: %w", o.Upstream.JoinTokenFile, err)
			}
			return token, nil
		},
		Folder: filepath.Join(o.StateDir, identityFolder), Name: o.Name, Hosts: o.Hosts,
		Dial: func(c credentials.TransportCredentials) (*grpc.ClientConn, error) {
			return dial.Any(o.Upstream.Addresses, grpc.WithTransportCredentials(c))
		},
		Changed: func() { s.door.guard.Recheck() },
		Metrics: s.metrics, Log: o.Log,
	})
}

func (u *upstream) places() (places []string) {
	for _, address := range u.options.Upstream.Addresses {
		places = append(places, "mcp://"+address)
	}
	return places
}

// run shows callers everything that their scopes let them read: mesh.readers is in the database,
// and the upstream applies it to the relay.
func (u *upstream) run(ctx context.Context) error {
	if err := u.keys.Unlock(ctx, sealingState{u.options.StateDir}); err != nil {
		return err
	}
	u.views.Show(nil)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return u.relay.Run(ctx) })
	if u.joined != nil {
		g.Go(func() error { return u.joined.Run(ctx) })
	}
	return g.Wait()
}

func (u *upstream) tokens() caller.Tokens { return caller.NoTokens{} }

func (u *upstream) mesh() (mesh, bool) { return u.joined, u.joined != nil }

// register registers the status of the relay. All other calls are for its upstream.
func (u *upstream) register(g grpc.ServiceRegistrar) {
	admin.New(admin.Config{
		News: u.publisher.Subscribe, Ready: func() (string, error) { return u.ready(u) }, Source: u.publisher.Source, Clients: u.clients.List,
		Sinks: u.sinksTold,
		Link: func() admin.Link {
			now := u.relay.Link()
			return admin.Link{Connected: now.Connected, Since: now.Since, Losses: now.Losses}
		},
		Version: program.Version(), Log: u.options.Log,
	}).RegisterStatus(g)
}

func (u *upstream) drain() {}

// standing is empty: the publisher reports on what is relayed.
func (u *upstream) standing() (about string, err error) { return "", nil }

// closed refuses what only the server with the database can do.
func (u *upstream) closed(context.Context, string) error {
	refusal, err := status.New(codes.FailedPrecondition, "this server is a relay: it has no database to read from or to change. Ask its upstream, "+u.relay.Following()).
		WithDetails(&errdetails.ErrorInfo{Reason: "RELAY", Domain: "pgmesh.io", Metadata: map[string]string{"upstream": u.relay.Following()}})
	if err != nil {
		panic(fmt.Sprintf("a status of a message that is linked in: %v", err))
	}
	return refusal.Err()
}
