package serve

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/pflag"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/dial"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/mcp-server/authority"
	"github.com/pgmesh/pgmesh/mcp-server/relay"
)

// Upstream says which MCP servers a relay follows in place of a database, and how it speaks to them.
type Upstream struct {
	Addresses []string
	Dial      dial.Options // but for Plaintext, which is the server's own
}

// Flags declares the flags of a relay.
func (u *Upstream) Flags(f *pflag.FlagSet) {
	f.StringSliceVar(&u.Addresses, "upstream", nil,
		"relay another MCP server, host:port, in place of a database; of several, separated by commas or in flags of their own, one is followed and the others stand by")
	u.Dial.Flags(f, "upstream-")
}

// checkSource sees that there is one source.
func (o *Options) checkSource() error {
	switch {
	case o.Database == "" && len(o.Upstream.Addresses) == 0:
		return errors.New("--database is missing: the URL of the Postgres database that holds the mesh, such as postgres://user@host/mesh. " +
			"Or give --upstream, to relay another server")
	case len(o.Upstream.Addresses) == 0:
		return nil
	case o.Database != "":
		return errors.New("--database and --upstream exclude each other: a server reads the database, or relays another server that does")
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

// upstream is the source of a relay. It has no API but MCP.
type upstream struct {
	*server
	relay *relay.Relay
}

func (s *server) upstream() (source, error) {
	o := s.options
	how := o.Upstream.Dial
	if how.Plaintext = o.Plaintext; how.TLS.Given() {
		how.Plaintext = listen.Plaintext{} // which is about those that this server serves
	}
	connection, err := how.To(o.Log, o.Upstream.Addresses...)
	if err != nil {
		return nil, fmt.Errorf("--upstream: %w", err)
	}
	return &upstream{s, relay.New(s.publisher, o.Log, s.metrics, relay.Options{
		Upstreams: o.Upstream.Addresses, DialOptions: connection.DialOptions(),
	})}, nil
}

func (u *upstream) places() (places []string) {
	for _, address := range u.options.Upstream.Addresses {
		places = append(places, "mcp://"+address)
	}
	return places
}

// run shows each caller all that it may read: mesh.readers is in the database, which the upstream goes by for the relay.
func (u *upstream) run(ctx context.Context) error {
	if err := u.keys.Unlock(ctx, sealingState{u.options.StateDir}); err != nil {
		return err
	}
	u.views.Show(nil)
	return u.relay.Run(ctx)
}

func (u *upstream) tokens() caller.Tokens { return caller.NoTokens{} }

func (u *upstream) authority() *authority.Authority { return nil }

func (u *upstream) register(grpc.ServiceRegistrar) {}

func (u *upstream) drain() {}

// closed refuses what only the server with the database can do.
func (u *upstream) closed(context.Context) error {
	refusal, err := status.New(codes.FailedPrecondition, "this server is a relay: it has no database to read from or to change. Ask its upstream, "+u.relay.Following()).
		WithDetails(&errdetails.ErrorInfo{Reason: "RELAY", Domain: "pgmesh.io", Metadata: map[string]string{"upstream": u.relay.Following()}})
	if err != nil {
		panic(fmt.Sprintf("a status of a message that is linked in: %v", err))
	}
	return refusal.Err()
}
